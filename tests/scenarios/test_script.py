from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.scenarios.script import MAX_SCRIPT_CHARACTERS, BadScript, Script, Step, ToolCall, find_script, render_prompt

LINES = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
STEPS = st.builds(
    Step,
    say=LINES,
    exit=st.none() | LINES,
    tools=st.lists(st.builds(ToolCall, name=LINES, arguments=st.dictionaries(LINES, LINES | st.integers() | st.booleans()))).map(
        tuple
    ),
    keeps_talking=st.booleans(),
)


@given(LINES, st.lists(STEPS, min_size=1, max_size=4))
def test_a_script_in_a_prompt_is_read_back_as_it_was(name: str, steps: list[Step]) -> None:
    script = Script(name=name, steps=tuple(steps))
    assert find_script(render_prompt("Be kind.", script)) == script


def test_a_prompt_without_a_script_has_none() -> None:
    assert find_script(render_prompt("Be kind.\n```python\nscript\n```", None)) is None


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ("name: x\nsteps: []", "steps"),
        ("name: x", "steps"),
        ("- 1", "root"),
        ("{", "not YAML"),
        ("name: !!python/object/apply:os.getcwd []\nsteps: [{say: hi}]", "not YAML"),
        ("name: x\nsteps: [{}]", "needs one of"),
        ("name: x\nsteps: [{say: hi, shout: true}]", "steps.0.shout"),
        ("name: x\nsteps: [{stall: 0}]", "stall"),
        ("name: x\nsteps: [{exit: bye, die_after: 1}]", "words to die in"),
        ("name: x\nsteps: [{say: hi}]\nmanners: {rate: 11025}", "manners.rate"),
        ("#" * (MAX_SCRIPT_CHARACTERS + 1), "longer than"),
        ("[" * 20000, "not YAML"),
    ],
)
def test_a_block_that_cannot_be_used_says_why(block: str, error: str) -> None:
    with pytest.raises(BadScript, match=error):
        find_script(f"Talk.\n\n```script\n{block}\n```\n")
