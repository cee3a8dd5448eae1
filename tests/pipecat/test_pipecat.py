"""The engine between two real Pipecat servers: turns, texts, latency, tokens, and the ways in which such a server refuses and ends."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from engine_run import Ran, run_engine, scenario

from voiceeval_engine.live import events
from voiceeval_engine.wire.link import BotLink, ConnectFailed

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("pipecat", reason="pipecat-ai is not installed: it comes with the extra `pipecat`")
    from pipecat_bots import Line, PipecatBot

pytestmark = pytest.mark.filterwarnings("ignore")  # what pipecat deprecates is no fault of ours

LOG = logging.LoggerAdapter(logging.getLogger("voiceeval_engine"), {})
AGENT = (
    Line(("Hello, how can I help?", "I listen to you."), tokens=(100, 20)),
    Line(("Surely, one moment please.",), tokens=(130, 10)),
    Line(("That is done.", "Goodbye now."), exit="done", tokens=(150, 12)),
)
USER = (
    Line(("I want a large coffee.",), tokens=(50, 5)),
    Line(("Thank you, and", "that is really all."), tokens=(60, 6)),
)
EXPECTED = [
    ("agent", "Hello, how can I help? I listen to you."),
    ("user", "I want a large coffee."),
    ("agent", "Surely, one moment please."),
    ("user", "Thank you, and that is really all."),
    ("agent", "That is done. Goodbye now."),
]


def talk(output: Path, agent: PipecatBot, user: PipecatBot, **options: Any) -> Ran:
    with serving(agent, user):
        return run_engine(output, [(agent, user)], {"talk": scenario("talk")}, **options)


def turns(ran: Ran) -> list[tuple[str, str]]:
    return [(turn["role"], turn["text"]) for turn in ran.metrics("talk")["turns"]]


@pytest.mark.parametrize(
    ("text", "stops"), [("before stop", "sentence"), ("after stop", "sentence"), ("after stop", "reply"), ("words", "reply")]
)
def test_turns_texts_latency_and_tokens_come_out_right(tmp_path: Path, text: str, stops: str) -> None:
    agent = PipecatBot(*AGENT, text=text, stops=stops, ready_twice=True)
    user = PipecatBot(*USER, text=text, stops=stops, thinks=0.2)
    ran = talk(tmp_path, agent, user)
    metrics = ran.metrics("talk")
    assert turns(ran) == EXPECTED
    assert metrics["stop_reason"] == "[EXIT]"
    assert metrics["clean_exit"] is True
    found = [each["latency_ms"] for each in metrics["latencies"]]
    true = [1000 * each for each in agent.truth.answers]
    assert found == [pytest.approx(each, abs=60.0) for each in true]
    assert len(found) == 2
    assert [each["user_transcript"] for each in metrics["latencies"]] == [EXPECTED[1][1], EXPECTED[3][1]]
    usage = metrics["token_usage"]
    assert {key: usage["agent"][key] for key in ("n_calls", "prompt", "completion")} == {
        "n_calls": 3,
        "prompt": 380,
        "completion": 42,
    }
    assert {key: usage["user"][key] for key in ("n_calls", "prompt", "completion")} == {
        "n_calls": 2,
        "prompt": 110,
        "completion": 11,
    }
    assert agent.truth.requests == [*("reset", "update_system_prompt", "apply_initialization"), *PULLED]
    ended = ran.of("talk", events.TurnEnded)
    assert sorted(turn.text for turn in ended) == sorted(text for _, text in EXPECTED), "the journal tells the same"
    assert "unusable message" not in ran.log
    assert ran.of("talk", events.Interrupted) == []


PULLED = ("get_context_history", "get_scenario_summary")


def test_an_interruption_ends_the_turn_that_it_cuts_short(tmp_path: Path) -> None:
    agent = PipecatBot(
        Line(("Hello there, my friend.", "Now let me tell you a very long story of all the things that I can do for you today.")),
        Line(("Very well.",), exit="done"),
    )
    user = PipecatBot(Line(("Please stop it.",)), barges_in_after=1.0, thinks=0.0)
    ran = talk(tmp_path, agent, user)
    assert turns(ran)[0] == ("agent", "Hello there, my friend.")
    assert sorted(turns(ran)[1:]) == [("agent", "Very well."), ("user", "Please stop it.")]
    assert agent.truth.interruptions == 1
    assert [each.side for each in ran.of("talk", events.Interrupted)] == ["agent"], "a server tells one at every turn"
    first = next(turn for turn in ran.of("talk", events.TurnEnded) if turn.text.startswith("Hello"))
    assert first.end - first.start < 2.5, "what was not played yet is not heard any more"


@pytest.mark.parametrize(
    ("agent", "user"),
    [
        pytest.param({"rate": 16_000}, {"rate": 48_000}, id="other sample rates"),
        pytest.param({"streams": True}, {"streams": True, "text": "after stop"}, id="silence is streamed all day"),
        pytest.param({"stops": "never"}, {"stops": "never", "sound": "speech"}, id="stopped only by the other's speech"),
        pytest.param({"errs": True, "text": "after stop", "stops": "reply"}, {"errs": True}, id="services report errors"),
    ],
)
def test_servers_with_other_habits_are_read_alike(tmp_path: Path, agent: dict[str, Any], user: dict[str, Any]) -> None:
    speaker = PipecatBot(*AGENT, **agent)
    ran = talk(tmp_path, speaker, PipecatBot(*USER, thinks=0.2, **user))
    assert turns(ran) == EXPECTED
    assert [each["latency_ms"] for each in ran.metrics("talk")["latencies"]] == [
        pytest.approx(1000 * each, abs=60.0) for each in speaker.truth.answers
    ]
    assert ran.of("talk", events.Interrupted) == []


@pytest.mark.parametrize("dies", ["cancelled", "ended"])
@pytest.mark.parametrize("side", ["agent", "user"])
def test_a_pipeline_that_dies_is_a_lost_connection(tmp_path: Path, dies: Any, side: str) -> None:
    agent, user = list(AGENT), list(USER)
    lines = agent if side == "agent" else user
    lines[1] = Line(lines[1].sentences, dies=dies)
    began = time.monotonic()
    ran = talk(tmp_path, PipecatBot(*agent), PipecatBot(*user), max_auto_retries=0)
    assert "the bot closed the connection (1001" in ran.bridge_log("talk") + ran.log
    if side == "agent":
        assert ran.metrics("talk")["stop_reason"] == "[AGENT_DISCONNECTED]"
        assert turns(ran)[:2] == EXPECTED[:2]
    else:
        assert not ran.has_result("talk") or ran.metrics("talk")["stop_reason"] == "[USER_DISCONNECTED]"
    assert time.monotonic() - began < 60


async def test_a_second_client_is_told_that_the_bot_is_busy_and_comes_in_when_the_first_has_gone() -> None:
    bot = PipecatBot(*AGENT)
    with serving(bot):
        first, second = BotLink("agent", bot.url, LOG), BotLink("agent", bot.url, LOG)
        await first.open(delays=())
        with pytest.raises(ConnectFailed, match=r"busy with another client \(1013 Server already has a connected client\)"):
            await second.open(delays=())
        leaving = asyncio.create_task(_later(0.3, first.close()))
        await second.open(delays=(0.1, 0.2, 0.4, 0.8))
        assert second.is_ready
        assert await second.request("reset", {}) is True
        await leaving
        await second.close()


def test_an_agent_that_is_busy_for_a_while_is_waited_for(tmp_path: Path) -> None:
    agent, user = PipecatBot(Line(("Hello.",), exit="done")), PipecatBot(*USER)

    async def occupy(entered: threading.Event) -> None:
        other = BotLink("agent", agent.url, LOG)
        await other.open(delays=())
        entered.set()
        await asyncio.sleep(2.0)
        await other.close()

    with serving(agent, user):
        entered = threading.Event()
        occupant = threading.Thread(target=lambda: asyncio.run(occupy(entered)))
        occupant.start()
        assert entered.wait(10.0)
        ran = run_engine(tmp_path, [(agent, user)], {"talk": scenario("talk")})
        occupant.join(10.0)
    assert "1013 Server already has a connected client" in ran.bridge_log("talk")
    assert turns(ran) == [("agent", "Hello.")]
    assert ran.metrics("talk")["stop_reason"] == "[EXIT]"


async def _later(seconds: float, work: Any) -> None:
    await asyncio.sleep(seconds)
    await work
