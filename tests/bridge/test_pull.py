from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.bridge.pull import Pulled, context_of, pull, read_heavy, summary_of
from voiceeval_engine.offload import Offload
from voiceeval_engine.wire.link import HeavyReply, RequestFailed

LOG = logging.LoggerAdapter(logging.getLogger("voiceeval.test"))


class FakeLink:
    """Answers from a dictionary; an exception is raised."""

    bot = "agent"

    def __init__(self, is_lost: bool = False, **answers: Any) -> None:
        self.is_lost = is_lost
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answers = answers

    async def request(self, t: str, d: dict[str, Any]) -> Any:
        self.asked.append((t, d))
        answer = self._answers[t]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def offload() -> Any:
    made = Offload()
    yield made
    made.close()


async def ask(link: FakeLink, offload: Offload, *, include_db: bool = False) -> Pulled:
    return await pull(link, include_db=include_db, offload=offload, log=LOG)  # type: ignore[arg-type]


async def test_context_actions_hash_and_database_are_pulled(offload: Offload) -> None:
    summary = {"actions": [{"name": "a"}, "no action", {"name": "b"}], "db_hash": "ab12", "db": {"x": 1}}
    link = FakeLink(get_context_history={"context": "[{'role': 'user'}]"}, get_scenario_summary=summary)
    assert await ask(link, offload, include_db=True) == Pulled(
        "[{'role': 'user'}]", ({"name": "a"}, {"name": "b"}), "ab12", '{"x": 1}'
    )
    assert link.asked == [("get_context_history", {}), ("get_scenario_summary", {"include_db": True})]


async def test_a_bot_that_is_gone_is_not_asked(offload: Offload) -> None:
    link = FakeLink(is_lost=True)
    assert await ask(link, offload) == Pulled()
    assert link.asked == []


@pytest.mark.parametrize("failing", ["get_context_history", "get_scenario_summary"])
async def test_one_failure_leaves_the_other_part_and_is_a_warning(
    failing: str, offload: Offload, caplog: pytest.LogCaptureFixture
) -> None:
    answers: dict[str, Any] = {"get_context_history": [], "get_scenario_summary": {"actions": [{"name": "a"}]}}
    answers[failing] = RequestFailed("agent bot", f"did not answer {failing} within 15 s")
    pulled = await ask(FakeLink(**answers), offload)
    assert pulled == (Pulled(None, ({"name": "a"},)) if failing == "get_context_history" else Pulled([]))
    assert f"agent bot did not answer {failing}" in caplog.text


HOSTILE = [
    None, True, 5, "text", [], [1, 2], {}, {"context": 5, "actions": 5, "db_hash": 5, "db": 5},
    {"context": {}, "actions": {"a": 1}, "db_hash": ["x"], "db": []}, {"actions": [None, 1, []], "db": {"x": float("nan")}},
    {"context": "__import__('os').system('false')"}, {"context": "\x1b[31m"}, {"db": {"\ud800": "\ud800"}},
]  # fmt: skip


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("heavy", [False, True])
async def test_whatever_a_bot_answers_is_kept_or_left_out(answer: Any, heavy: bool, offload: Offload) -> None:
    given = HeavyReply(json.dumps({"data": {"d": answer}})) if heavy else answer
    pulled = await ask(FakeLink(get_context_history=given, get_scenario_summary=given), offload, include_db=True)
    assert pulled.context is None or isinstance(pulled.context, str | list)
    assert pulled.actions is None or all(isinstance(action, dict) for action in pulled.actions)
    assert pulled.db_hash is None or isinstance(pulled.db_hash, str)
    assert pulled.db_text is None or isinstance(json.loads(pulled.db_text), dict)


async def test_a_very_large_answer_is_read_in_the_worker(offload: Offload) -> None:
    text = json.dumps({"data": {"d": {"context": "x" * 300_000, "actions": [], "db": {"k": "v"}}}})
    pulled = await ask(FakeLink(get_context_history=HeavyReply(text), get_scenario_summary=HeavyReply(text)), offload)
    assert pulled == Pulled("x" * 300_000, (), None, '{"k": "v"}')


@pytest.mark.parametrize(
    "text", ["", "no json", "[" * 300_000, "[]", "{}", '{"data": 5}', '{"data": {}}', '{"data": {"error": "x"}}', "null"]
)
def test_a_large_message_that_is_no_answer_gives_nothing(text: str) -> None:
    assert read_heavy(context_of, text) is None
    assert read_heavy(summary_of, text) is None


@pytest.mark.parametrize("depth", [100, 600, 900, 960, 980, 990])
def test_a_database_of_any_depth_is_kept_or_left_out(depth: int) -> None:
    text = '{"data":{"d":{"db":{"a":' + "[" * depth + "]" * depth + "}}}}"
    found = read_heavy(summary_of, text)
    assert found is None or found[2] is None or found[2].count("[") == depth


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["context", "actions", "db_hash", "db"]), x)))  # fmt: skip
def test_reading_never_raises(result: Any) -> None:
    context_of(result)
    summary_of(result)
    read_heavy(context_of, json.dumps(result))
    read_heavy(summary_of, json.dumps({"data": {"d": result}}))
