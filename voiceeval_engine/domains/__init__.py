"""What a domain is made of (tools, predicates, initialization, sync) and the embedded domains. Lowest floor."""
