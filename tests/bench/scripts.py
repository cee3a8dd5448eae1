"""The scenario packs that the benches run: scripts of alternating speech for the embedded bots, manners and all, as YAML files.

The product reads them with `--scenario-dir`, as it would read anybody's pack. May import yaml and the product's script model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from voiceeval_engine.scenarios.script import ScriptManners

AGENT_PHRASES = (
    "we can do that today.",
    "let me see. That is four euros and twenty cents in all.",
    "yes.",
    "there is one left, and it comes with a slice of lemon cake if you like that sort of thing.",
    "it takes five minutes. Is that all right with you?",
)
USER_PHRASES = (
    "one latte, please.",
    "I should also like to have a croissant. And a green tea for my brother.",
    "no milk.",
    "could you tell me whether the cheesecake was made this morning or whether it is from yesterday?",
    "thank you.",
)
LONG_AGENT = (
    "Certainly, I have put that on your order, and it will be ready for you at the counter in a few minutes. Anything else?"
)
LONG_USER = "Yes, please add another one of those, and could you tell me what else you have got for somebody who is hungry?"
SINGLE_WORDS = ("certainly", "croissants", "tomorrow", "yes", "cheesecake")
"""What can be answered within 0.3 s: a word has no pause that might be its end."""
END_OF_SCRIPT = "the bench's script came to its end"


def numbered(number: int, phrases: tuple[str, ...], length: int) -> str:
    """The words of one turn; `number` (from 0) is part of them, so a transcript says which turn it was."""
    return f"On {number}, {' '.join(phrases[(number + each) % len(phrases)] for each in range(length))}"


def counted_scenario(name: str, handoffs: int, agent: ScriptManners, user: ScriptManners, length: int = 1) -> dict[str, Any]:
    """An opening and `handoffs` answers of the agent, then its exit: 2 * handoffs + 1 turns.

    A turn is `length` phrases long, with 0 the user's are single words. Agent turn 0 is the opening, agent turn i answers the user's
    turn i - 1.
    """
    steps: list[dict[str, Any]] = [{"say": numbered(number, AGENT_PHRASES, length or 1)} for number in range(handoffs + 1)]
    steps[-1]["exit"] = END_OF_SCRIPT
    answers = [numbered(number, USER_PHRASES, length) if length else _word(number) for number in range(handoffs)]
    said = [{"steps": steps}, {"steps": [{"say": text} for text in answers]}]
    for script, manners in zip(said, (agent, user), strict=True):
        script["manners"] = manners.model_dump(exclude_unset=True)
    return _scenario(name, *said)


def endless_scenario(name: str) -> dict[str, Any]:
    """Both sides speak in turn, about 7 s each and 0.6 s between, until the conversation's duration is over."""
    return _scenario(name, {"steps": [{"say": LONG_AGENT, "repeat": True}]}, {"steps": [{"say": LONG_USER, "repeat": True}]})


def write_pack(folder: Path, scenarios: list[dict[str, Any]]) -> Path:
    """Make a pack of `scenarios` at `folder` and return it."""
    folder.mkdir(parents=True)
    defaults = {
        "domain": "cafe",
        "agent_prompt": "You take orders.",
        "user_prompt": "You are a guest.",
        "success_signals": ["clean_exit"],
        "max_duration": 3600,
    }
    for file, content in (("domain.yaml", defaults), ("scenarios.yaml", scenarios)):
        (folder / file).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return folder


def _word(number: int) -> str:
    return SINGLE_WORDS[number % len(SINGLE_WORDS)]


def _scenario(name: str, agent: Mapping[str, Any], user: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": "A bench's conversation.", "agent": dict(agent), "user": dict(user)}
