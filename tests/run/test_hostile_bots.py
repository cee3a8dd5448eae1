"""Whatever a bot sends harms at most its own attempt, and a log line names the bot and the message.

Each row is one scenario on a pair of its own; all rows run at once beside a pair that behaves.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from bot_farm import patient_pair, serving
from engine_run import LOG_LINE, Ran, run_engine, scenario
from hostile_bots import LOUD, SILENT, Act, Drop, HostileBot, Raw, Refusal, Stage

from voiceeval_engine.live import events
from voiceeval_engine.scenarios.script import Step
from voiceeval_engine.wire import link, rtvi
from voiceeval_engine.wire.frames import encode_interruption, encode_message

FORGED = "2020-01-01 00:00:00 | forged.py:forged:1 | [ERROR]: forged"
EVIL = f"\x1b[31mred\x1b]0;title\x07\r\n{FORGED}\n\u202eback\u2066\x00\x9b31m\x85\u2028end"
"""Colours, a title, a carriage return, a forged log line, bidi overrides, a C1 control, other line ends."""
MEGABYTE = 2**20
CANARY = "/tmp/voiceeval_canary_that_must_not_exist"


@dataclass(frozen=True)
class Row:
    """`act` is what the agent does; unless it `ends` the conversation itself, it then speaks a turn and exits as it should.

    `words`: what a line of `evaluation_log.txt` about this scenario must hold, a regular expression; empty for no line.
    """

    name: str
    act: Act | None = None
    words: str = ""
    ends: bool = False
    agent: dict[str, Any] = field(default_factory=dict)
    user: dict[str, Any] = field(default_factory=dict)
    user_act: Act | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    def bots(self) -> tuple[HostileBot, HostileBot]:
        return HostileBot(self._perform, self.agent), HostileBot(self.user_act, self.user)

    async def _perform(self, stage: Stage) -> None:
        if self.act is not None:
            await self.act(stage)
        if not self.ends:
            await stage.speak("I am still here.")
            await stage.exit()


def sends(*messages: str | bytes) -> Act:
    async def act(stage: Stage) -> None:
        for message in messages:
            await stage.send(message)

    return act


def tells(*messages: tuple[Any, Any]) -> Act:
    async def act(stage: Stage) -> None:
        for type_, data in messages:
            await stage.event(type_, data)

    return act


def sounds(*frames: tuple[bytes, int, int]) -> Act:
    async def act(stage: Stage) -> None:
        for pcm, rate, channels in frames:
            await stage.audio(pcm, rate, channels)

    return act


async def _flood(stage: Stage) -> None:
    for number in range(2000):
        type_ = ("bot-started-speaking", "bot-tts-text", "bot-stopped-speaking", "bot-llm-text", "metrics")[number % 5]
        await stage.event(type_, {"text": f"word{number}"})


async def _interrupts(stage: Stage) -> None:
    for _ in range(500):
        await stage.audio(LOUD)
        await stage.send(encode_interruption())
        await stage.event("bot-interrupted")


async def _two_exits(stage: Stage) -> None:
    await stage.speak("I am still here.")
    await stage.exit()
    await stage.exit()


async def _silence(stage: Stage) -> None:
    pass


async def _exit_before_audio(stage: Stage) -> None:
    await stage.exit()


async def _dies(stage: Stage) -> None:
    await stage.speak("I am still here.")
    await stage.die()


def closes(code: int, reason: str) -> Act:
    async def act(stage: Stage) -> None:
        await stage.speak("I am still here.")
        await stage.close(code, reason)

    return act


async def _closes_with_a_code_that_is_none(stage: Stage) -> None:
    await stage.speak("I am still here.")
    stage.socket.transport.write(b"\x88\x02\x03\xed")  # 1005 must not be sent


KNOWN_EVENTS = (
    "bot-ready", "bot-started-speaking", "bot-stopped-speaking", "bot-tts-text", "bot-output", "bot-transcription",
    "bot-interrupted", "metrics", "user-transcription", "bot-llm-started", "bot-llm-text", "bot-tts-started",
    "user-started-speaking", "llm-function-call", "llm-function-call-started", "server-response", "error-response", "error",
)  # fmt: skip
WRONG_VALUES: tuple[Any, ...] = (
    None, True, 7, -1.5, "text", [], [1], {}, {"text": None}, {"text": 7}, {"text": ["a"]}, {"text": {}}, {"text": EVIL},
    {"text": "a", "spoken": "maybe"}, {"tokens": None}, {"tokens": 7}, {"tokens": [None, 7, "x", [], {}]}, {"ttfb": {"a": 1}},
    {"tokens": [{"prompt_tokens": "NaN", "completion_tokens": -1}, {"prompt_tokens": 10**400}, {"prompt_tokens": EVIL}]},
    {"ttfb": [None, {"value": "x"}, {"value": 1e999, "processor": []}, {"processor": EVIL, "value": 0.1}]},
    {"function_name": 7}, {"function_name": EVIL}, {"t": 7, "d": 7}, {"error": None}, {"error": 7}, {"error": EVIL, "fatal": 3},
)  # fmt: skip
WRONG_SERVER_MESSAGES: tuple[Any, ...] = (
    None, 7, "text", [], {"text": 7}, {"text": "<exit>"}, {"text": "</exit><exit>"}, {"type": 7}, {"type": "action-applied"},
    {"type": "action-applied", "action": 7}, {"type": "action-applied", "action": {}},
    {"type": "action-applied", "action": {"name": ["create_order"], "arguments": 7, "id": {"a": []}}},
    {"type": "action-applied", "action": {"name": EVIL, "arguments": {"a": "b"}}},
    {"text": "<final_response>{not json</final_response>" * 3},
    {"text": f"<final_response>{EVIL}</final_response>"}, {"type": EVIL, "action": {"name": "x"}},
)  # fmt: skip
WRONG_ENVELOPES: tuple[str, ...] = (
    "",
    "{",
    "null",
    "7",
    "[]",
    '"text"',
    "{}",
    '{"label":"other","type":"error"}',
    '{"label":"rtvi-ai"}',
    '{"label":"rtvi-ai","type":null}',
    '{"label":"rtvi-ai","type":7,"data":{}}',
    '{"label":"rtvi-ai","type":[],"id":{}}',
    '{"label":"rtvi-ai","type":"error","id":true}',
    '{"label":"rtvi-ai","type":"metrics","data":{"ttfb":[{"value":NaN}]}}',
    '{"label":"rtvi-ai","type":"metrics","data":{"tokens":Infinity}}',
    "[" * 200_000,
    '{"label":"rtvi-ai","type":"metrics","data":' + "[" * 100_000,
    "9" * 5000,
    '{"label":"rtvi-ai","type":"server-response","id":"agent-99","data":{"t":"reset","d":[]}}',
    '{"label":"rtvi-ai","type":"error-response","id":"agent-1","data":{"error":"late"}}',
)


def action(arguments: Any) -> tuple[str, Any]:
    return "server-message", {"type": "action-applied", "action": {"name": "create_order", "arguments": arguments}}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _garbage() -> list[bytes]:
    chance = random.Random(7)
    return [b"", b"\x00", b"\xff" * 40, *(chance.randbytes(chance.randrange(1, 400)) for _ in range(200))]


def _context(value: Any) -> dict[str, Any]:
    return {"get_context_history": {"context": value}}


def _summary(**values: Any) -> dict[str, Any]:
    return {"get_scenario_summary": {"actions": [], "db_hash": None, **values}}


DB = {"orders": {str(number): "x" * 1000 for number in range(7000)}}
DB_FIELDS = {
    "success_signals": ("clean_exit", "db_state_assertion"),
    "db_state_assertions": (
        {"side": "agent", "func_name": "order_status", "arguments": {"order_id": "1"}, "assert_value": "open"},
    ),
}

SURVIVED = [
    Row("garbage", sends(*_garbage()), "agent bot, unusable message 1: "),
    Row("text_frames", sends("hello", EVIL), r"agent bot, unusable message 1: a text message, not a binary frame: 'hello'"),
    Row("wrong_envelopes", sends(*(encode_message(text) for text in WRONG_ENVELOPES)), "agent bot, unusable message 1: not JSON"),
    Row(
        "wrong_types",
        tells(*((type_, value) for type_ in KNOWN_EVENTS for value in WRONG_VALUES)),
        "agent bot, unusable message 1: bot-tts-text: ",
    ),
    Row(
        "wrong_server_messages",
        tells(*(("server-message", value) for value in WRONG_SERVER_MESSAGES)),
        "agent bot, unusable message",
    ),
    Row("null_tokens", tells(("metrics", {"tokens": None, "ttfb": None})), ""),
    Row("null_token_entry", tells(("metrics", {"tokens": [None]})), "agent bot, unusable message 1: a token entry"),
    Row("big_audio", sounds((bytes(10 * MEGABYTE), 24_000, 1)), "agent bot, unusable message 1: an audio frame of 10485760 bytes"),
    Row("big_event", tells(("bot-tts-text", {"text": "x" * 10 * MEGABYTE})), "agent bot, unusable message 1: an event of 10"),
    Row("big_garbage", sends(b"\xff" * 10 * MEGABYTE), "agent bot, unusable message 1: not a pipecat frame .10485760 bytes"),
    Row("big_text_frame", sends("x" * 10 * MEGABYTE), "agent bot, unusable message 1: a text message"),
    Row("unknown_event", tells(("bot-dances", {"how": "well"}), ("", None)), ""),
    Row("evil_words", tells(("bot-started-speaking", None), ("bot-tts-text", {"text": EVIL}), ("bot-stopped-speaking", None)), ""),
    Row("evil_error", tells(("error", {"error": EVIL, "fatal": True})), r"agent bot reports a fatal error: \\x1b\[31mred"),
    Row("evil_tool", tells(("llm-function-call-started", {"function_name": EVIL})), ""),
    Row("flood", _flood, ""),
    Row("interrupts", _interrupts, ""),
    Row("two_exits", _two_exits, "", ends=True),
    Row(
        "impossible_audio",
        sounds(*((LOUD, rate, channels) for rate, channels in ((0, 1), (1, 1), (4_000_000_000, 1), (24_000, 0), (24_000, 255)))),
        "agent bot, unusable message 1: audio of 0 Hz with 1 channels",
    ),
    Row(
        "odd_audio",
        sounds((b"", 24_000, 1), (b"\x01", 24_000, 1), (LOUD + b"\x01", 48_000, 2)),
        "agent bot sends 48000 Hz with 2 channel",
    ),
    Row("code_in_context", agent=_context(f"__import__('os').system('touch {CANARY}')")),
    Row("code_in_context_list", agent=_context(f"[open({CANARY!r}, 'w')]")),
    Row("nested_context", agent=_context("[" * 100_000)),
    Row("nested_context_signs", agent=_context("-" * 100_000 + "1")),
    Row("nested_context_sums", agent=_context("1" + "+1" * 50_000)),
    Row("nested_context_json", agent=_context('{"a":' * 100_000)),
    Row("context_no_text", agent=_context(7), words="agent bot: no context in its answer to get_context_history"),
    Row("context_no_object", agent={"get_context_history": None}, words="agent bot: no context in its answer"),
    Row("context_big", agent=_context(str([{"role": "user", "content": "x" * MEGABYTE}] * 10))),
    Row(
        "context_refused",
        agent={"get_context_history": Refusal(EVIL)},
        words=r"agent bot refused get_context_history: \\x1b\[31mred",
    ),
    Row("summary_refused", agent={"get_scenario_summary": Refusal(EVIL)}, words=r"agent bot refused get_scenario_summary: \\x1b"),
    Row(
        "summary_no_object",
        agent={"get_scenario_summary": [7]},
        words="agent bot: no summary in its answer to get_scenario_summary",
    ),
    Row("summary_wrong", agent=_summary(actions="x", db_hash=7, db=[]), fields=DB_FIELDS),
    Row("summary_evil", agent=_summary(actions=[7, None, {"name": EVIL, EVIL: float("1e308")}], db_hash=EVIL)),
    Row("summary_deep_actions", agent=_summary(actions=[{"name": "a", "arguments": nested(200)}])),
    Row("summary_big_db", agent=_summary(db=DB), fields=DB_FIELDS),
    Row("user_summary_big_db", user=_summary(db=DB), fields=DB_FIELDS),
    Row(
        "dies_when_asked",
        agent={"get_context_history": Drop()},
        words="agent bot: the connection was lost .* before it answered get_context",
    ),
    Row("lone_surrogate_type", tells(("bot-\ud800", None)), ""),
    Row("deep_db", agent=_summary(db={"a": nested(900)}), fields=DB_FIELDS),
    Row("nan_in_db", agent=_summary(db={"orders": {"1": {"status": float("nan")}}}), fields=DB_FIELDS),
    Row(
        "garbage_then_answer",
        agent={
            "reset": Raw(lambda id_: [b"\xff\xff", encode_message(rtvi.build("server-response", {"t": "reset", "d": True}, id_))])
        },
        words="agent bot, unusable message 1: not a pipecat frame",
    ),
    Row("user_garbage", user_act=sends(*_garbage(), EVIL), words="user bot, unusable message 1: "),
    Row("user_exits", user_act=tells(("server-message", {"text": "<exit>bye</exit>"})), words=""),
]

EVIL_TYPE = Row("evil_type", tells((EVIL, None), ("y" * 200_000, None)), "")
NOT_SHOWABLE = [
    Row("surrogate_words", tells(("bot-tts-text", {"text": "a \ud800 b"}), ("bot-output", {"text": "\udfff"})), ""),
    Row("surrogate_action", tells(action({"customer": "\ud800"}), ("server-message", {"type": "x\udfff"})), ""),
    Row("deep_action", tells(action(nested(300))), ""),
    Row("deep_name", tells(("server-message", {"type": "action-applied", "action": {"name": nested(900)}})), ""),
    Row("deep_token_entry", tells(("metrics", {"tokens": [nested(900)]})), "agent bot, unusable message 1: a token entry"),
    Row("deep_ttfb", tells(("metrics", {"ttfb": [{"value": 1, "processor": nested(900)}]})), ""),
]
"""Messages that are valid JSON and yet cannot be written as one line of a log, or not by the usual means."""

ENDED = {
    "[EXIT]": [Row("exit_before_audio", _exit_before_audio, ends=True)],
    "[INACTIVITY_TIMEOUT]": [Row("says_nothing", _silence, ends=True)],
    "[AGENT_DISCONNECTED]": [
        Row("dies", _dies, "agent bot: the connection was lost without a closing handshake", ends=True),
        Row("closes", closes(1000, ""), r"agent bot: the bot closed the connection \(1000\)", ends=True),
        Row("closes_oddly", closes(4999, EVIL[:40]), r"agent bot: the bot closed the connection \(4999 \\x1b\[31mred", ends=True),
        Row("closes_busy", closes(1013, "later"), r"agent bot: the bot is busy with another client \(1013 later\)", ends=True),
        Row("closes_with_no_code", _closes_with_a_code_that_is_none, "agent bot: the ", ends=True),
    ],
}

NOT_RUN = {
    "refuses": (Row("refuses", agent={"reset": Refusal(EVIL)}), r"set-up: agent bot refused reset: \\x1b\[31mred"),
    "answers_false": (
        Row("answers_false", user={"update_system_prompt": False}),
        "set-up: user bot failed at update_system_prompt",
    ),
    "answers_nonsense": (
        Row("answers_nonsense", agent={"apply_initialization": "fine"}),
        "set-up: agent bot failed at apply_initialization: it answered 'fine'",
    ),
    "answers_errors": (
        Row("answers_errors", user={"apply_initialization": {"success": False, "errors": [EVIL, 7]}}),
        r"set-up: user bot failed at apply_initialization: \\x1b\[31mred",
    ),
    "success_is_text": (
        Row("success_is_text", agent={"apply_initialization": {"success": "true"}}),
        "set-up: agent bot failed at apply_initialization",
    ),
    "drops": (Row("drops", agent={"reset": Drop()}), "set-up: agent bot: .* before it answered reset"),
    "drops_oddly": (
        Row("drops_oddly", user={"reset": Drop(4000, EVIL[:40])}),
        r"set-up: user bot: .*4000 \\x1b.* before it answered reset",
    ),
    "user_dies": (Row("user_dies", _silence, ends=True, user_act=_dies), "simulator lost: the user bot's connection ended"),
}

MUTE = {
    "mute_in_set_up": (Row("mute_in_set_up", agent={"reset": SILENT}), "set-up: agent bot did not answer reset within"),
    "mute_user": (
        Row("mute_user", user={"apply_initialization": SILENT}),
        "set-up: user bot did not answer apply_initialization within",
    ),
}
MUTE_AT_THE_END = [
    Row("mute_context", agent={"get_context_history": SILENT}, words="agent bot did not answer get_context_history within"),
    Row("mute_summary", agent={"get_scenario_summary": SILENT}, words="agent bot did not answer get_scenario_summary within"),
    Row(
        "nested_summary",
        agent={
            "get_scenario_summary": Raw(lambda id_: [encode_message(f'{{"label":"rtvi-ai","id":"{id_}","data":' + "[" * 100_000)])
        },
        words="agent bot, unusable message 1: not JSON",
    ),
]


def _run(folder: Path, rows: list[Row]) -> Ran:
    good = patient_pair()
    pairs = [row.bots() for row in rows]
    scenarios = {f"h__{row.name}": scenario(f"h__{row.name}", **row.fields) for row in rows}
    scenarios["h__good"] = scenario(
        "h__good", [Step(say="Hello."), Step(say="Goodbye.", exit="done")], [Step(say="Good morning to you.")]
    )
    with serving(good, *(bot for pair in pairs for bot in pair)):
        return run_engine(
            folder, [*pairs, (good.agent, good.user)], scenarios, max_auto_retries=0, min_agent_turns=0, inactivity_timeout=6.0
        )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    rows = [
        EVIL_TYPE,
        *SURVIVED,
        *NOT_SHOWABLE,
        *(row for group in ENDED.values() for row in group),
        *(row for row, _ in NOT_RUN.values()),
    ]
    return _run(tmp_path_factory.mktemp("hostile"), rows)


@pytest.fixture(scope="module")
def mute_ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link.BotLink.request, "__defaults__", (2.0,))
        yield _run(tmp_path_factory.mktemp("mute"), [*MUTE_AT_THE_END, *(row for row, _ in MUTE.values())])


def _survives(ran: Ran, row: Row) -> None:
    name = f"h__{row.name}"
    metrics = ran.metrics(name)
    assert metrics["stop_reason"] == "[EXIT]"
    assert metrics["success_breakdown"]["passed"][-1] == "clean_exit"
    assert "I am still here." in metrics["turns"][-1]["text"]
    assert metrics == json.loads(json.dumps(metrics))
    _is_logged(ran, row)


def _is_logged(ran: Ran, row: Row) -> None:
    lines = [line for line in ran.log.splitlines() if f"[h__{row.name}]" in line]
    if row.words:
        assert any(re.search(row.words, line) for line in lines), lines
    else:
        assert not any("unusable" in line for line in lines), lines


@pytest.mark.parametrize("row", SURVIVED, ids=lambda row: row.name)
def test_a_bad_message_hurts_nothing_but_itself(ran: Ran, row: Row) -> None:
    _survives(ran, row)


@pytest.mark.parametrize("row", NOT_SHOWABLE, ids=lambda row: row.name)
def test_a_message_that_cannot_be_shown_hurts_nothing_but_itself(ran: Ran, row: Row) -> None:
    _survives(ran, row)


@pytest.mark.parametrize(
    ("reason", "row"),
    [(reason, row) for reason, rows in ENDED.items() for row in rows],
    ids=lambda value: value.name if isinstance(value, Row) else "",
)
def test_a_bot_that_ends_its_own_conversation_is_scored_by_how_it_did(ran: Ran, reason: str, row: Row) -> None:
    assert ran.metrics(f"h__{row.name}")["stop_reason"] == reason
    _is_logged(ran, row)


@pytest.mark.parametrize("name", NOT_RUN)
def test_a_bot_that_cannot_be_set_up_costs_its_scenario_and_says_where(ran: Ran, name: str) -> None:
    assert re.match(NOT_RUN[name][1], ran.not_run(f"h__{name}"))
    assert f"h__{name} did not run: " in ran.log


@pytest.mark.parametrize("row", MUTE_AT_THE_END, ids=lambda row: row.name)
def test_a_question_that_is_never_answered_leaves_its_part_empty(mute_ran: Ran, row: Row) -> None:
    _survives(mute_ran, row)


@pytest.mark.parametrize("name", MUTE)
def test_a_set_up_that_is_never_answered_names_bot_and_step(mute_ran: Ran, name: str) -> None:
    assert re.match(MUTE[name][1], mute_ran.not_run(f"h__{name}"))


@pytest.mark.parametrize("which", ["ran", "mute_ran"])
def test_the_pair_beside_them_has_a_good_conversation(which: str, request: pytest.FixtureRequest) -> None:
    metrics = request.getfixturevalue(which).metrics("h__good")
    assert (metrics["is_successful"], metrics["stop_reason"]) == (True, "[EXIT]")
    assert [turn["text"] for turn in metrics["turns"]] == ["Hello.", "Good morning to you.", "Goodbye."]


def test_no_code_of_a_bot_is_ever_run(ran: Ran) -> None:
    assert not Path(CANARY).exists()
    context = json.loads((ran.session / "h__code_in_context" / "bot_logs_agent" / "llm_context.json").read_text())
    assert context == [{"role": "unparsed", "content": f"__import__('os').system('touch {CANARY}')"}]


def test_a_large_database_is_read_and_scored(ran: Ran) -> None:
    (verdict,) = ran.metrics("h__summary_big_db")["db_state_assertion_verdicts"]
    assert verdict["passed"] is False


def _bridge_logs(ran: Ran) -> dict[str, str]:
    """All but the one that has a test of its own."""
    files = ran.session.glob("*/bridge_log.txt")
    return {file.parent.name: file.read_bytes().decode() for file in files if file.parent.name != f"h__{EVIL_TYPE.name}"}


def _is_safe(text: str) -> bool:
    """Whether a text may be shown on a terminal and every line of it is ours: none was forged with a line end in a message."""
    return all(character.isprintable() or character == "\n" for character in text) and not any(
        line.startswith(FORGED[:20]) for line in text.split("\n")
    )


@pytest.mark.parametrize("which", ["ran", "mute_ran"])
def test_nothing_a_bot_says_reaches_a_terminal_or_forges_a_line(which: str, request: pytest.FixtureRequest) -> None:
    ran: Ran = request.getfixturevalue(which)
    texts = {
        "printed": ran.printed,
        "evaluation_log.txt": ran.log,
        "all_summary.txt": (ran.session / "all_summary.txt").read_text(),
    }
    assert [where for where, text in (texts | _bridge_logs(ran)).items() if not _is_safe(text)] == []


def test_log_lines_are_ours_or_a_traceback(ran: Ran) -> None:
    for name, text in _bridge_logs(ran).items():
        for line in text.split("\n"):
            assert LOG_LINE.match(line) or line.startswith(("Traceback", " ")) or not line[:1].isdigit(), (name, line)


def test_a_message_is_shortened_in_every_log(ran: Ran) -> None:
    for name, text in {"evaluation_log.txt": ran.log, **_bridge_logs(ran)}.items():
        assert max(map(len, text.split("\n"))) < 70_000, name
    assert max(map(len, (ran.session / "events.jsonl").read_text().split("\n"))) < 70_000


def test_an_event_type_is_shown_as_any_other_word_of_a_bot(ran: Ran) -> None:
    text = ran.bridge_log(f"h__{EVIL_TYPE.name}")
    assert _is_safe(text)
    assert max(map(len, text.split("\n"))) < 70_000


def test_every_conversation_began_before_it_was_spoiled(ran: Ran) -> None:
    for row in (EVIL_TYPE, *SURVIVED, *NOT_SHOWABLE):
        assert len(ran.of(f"h__{row.name}", events.ConversationStarted)) == 1
