def apply_initialization_actions(domain, actions, db):
    errors = []
    for action in actions:
        if action["func_name"] == "set_lamp":
            db["lamp"] = action["arguments"]["value"]
        else:
            errors.append(f"unknown initialization function: {action['func_name']}")
    return {"success": not errors, "errors": errors}
