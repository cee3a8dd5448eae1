"""The command line: what is refused and how, what is listed, what a run leaves behind. In the process; see also test_cli_process."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from bot_farm import serving
from hostile_bots import HostileBot, Refusal, says_goodbye

from voiceeval_engine import __version__
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.wire import link
from voiceeval_tui.cli import main

PACK = str(Path(__file__).parent.parent / "data" / "short_pack")
NO_JUDGE = ["--judge-url", ""]
ORDER = ["--scenario-dir", PACK, "--scenarios", "short__order"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(link.BotLink.open, "__defaults__", ((0.01, 0.01), 0.016))


def _exit_code(*arguments: str) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (option, value)
        for option in ("--audio-chunk-in-seconds", "--duration", "--inactivity-timeout", "--pause", "--auto-retry-backoff-secs")
        for value in ("nan", "inf", "-1", "1e999", "soon")
    ]
    + [(option, "0") for option in ("--audio-chunk-in-seconds", "--duration", "--inactivity-timeout", "--output-sample-rate")]
    + [
        (option, value)
        for option in ("--output-sample-rate", "--min-agent-turns", "--max-auto-retries")
        for value in ("-1", "1.5", "x", "")
    ]
    + [
        ("--output-sample-rate", "3999"),
        ("--output-sample-rate", "192001"),
        ("--audio-chunk-in-seconds", "0.004"),
        ("--audio-chunk-in-seconds", "1.01"),
        ("--conversation-end-policy", "whenever"),
    ]
    + [
        (option, value)
        for option in ("--agent-url", "--user-url")
        for value in (
            "http://localhost:1",
            "localhost:8765",
            "ws://",
            "ws://:1",
            "ws://h:0",
            "ws://h:99999",
            "ws://h:x",
            "ws://h/ x",
            "ws://[::1",
            "",
            "ws://h/\x1b[31m",
            "ws://h/#part",
        )
    ]
    + [
        ("--pair", value)
        for value in (
            "ws://a:1",
            "ws://a:1,",
            ",ws://a:1",
            "ws://a:1,ws://b:1,ws://c:1",
            "ws://a:1,http://b:1",
            "ws://a:1,ws://b:0",
        )
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_option(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(*ORDER, f"{option}={value}") == 2
    printed = capsys.readouterr()
    message = printed.err.splitlines()[-1]
    assert option in message
    shown = value.split(",")[-1] if option == "--pair" and "://" in value.split(",")[-1] and value.count(",") == 1 else value
    assert shown.replace("\x1b", "\\x1b").replace("1e999", "inf") in message
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert list(tmp_path.iterdir()) == [], "nothing has been made"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pair", "ws://a:1,ws://a:1"), "--pair: ws://a:1 is given twice"),
        (("--pair", "ws://a:1,ws://b:1", "--pair", "ws://c:1,ws://b:1"), "--pair: ws://b:1 is given twice"),
        (("--pair", "ws://a:1,ws://b:1", "--pair", "ws://c:1,WS://B:1/"), "is given twice"),
        (("--agent-url", "ws://a:1", "--user-url", "ws://a:1"), "--user-url: ws://a:1 is given twice"),
        (("--user-url", "ws://localhost:8765"), "--user-url: ws://localhost:8765 is given twice"),
    ],
)
def test_a_bot_is_in_one_place_only(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code(*ORDER, *arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("--agent", "ws://a:1"), ("--dem",), ("--output", "x"), ("--nonsense", "k"), ("--judge-api", "k"), ("what",)]
)
def test_an_option_that_is_none_is_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code(*arguments, *ORDER) == 2
    assert f"unrecognized arguments: {arguments[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--pair=ws://a:1,ws://b:1", "--agent-url=ws://a:1", "--user-url=ws://a:1"])
def test_the_demo_brings_its_own_bots(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("--demo", option) == 2
    assert "--demo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scenario-dir", PACK, "--scenarios", "short__odrer"), "there is no scenario 'short__odrer'; did you mean short__order"),
        (("--scenarios", "x\x1b[31m"), "x\\x1b[31m"),
        (("--domain", "nowhere"), "--domain nowhere: no scenario's name starts with nowhere__"),
        (("--domain", "cafe__"), "--domain cafe__"),
        (("--no-ui",), "no scenarios are registered"),
        ((), "no scenarios are registered"),
        (("--scenario-dir", "."), "--scenario-dir: "),
        (("--scenario-dir", "/nowhere", "--list"), "--scenario-dir: /nowhere"),
        ((*ORDER, "--output-dir", "/proc/nowhere"), "--output-dir /proc/nowhere: "),
        ((*ORDER, "--output-dir", f"{PACK}/domain.yaml"), "--output-dir "),
    ],
)
def test_a_command_that_cannot_be_carried_out_says_why(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(*arguments) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("ERROR: ")
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_terminal_with_nothing_selected_says_what_to_give(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert _exit_code() == 2
    assert "nothing selected" in capsys.readouterr().err


def test_domains_are_listed_with_marks(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("--list-domains", "--scenario-dir", PACK) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == "Available domains:"
    assert "  - short (2 scenarios)" in lines
    assert any(line.startswith("  - cafe (") and line.endswith(" scenarios) (embedded)") for line in lines)
    assert lines[-2:] == ["", "Legacy scenarios (no domain): "]
    assert printed.err == ""


def test_scenarios_are_listed_by_domain_with_marks(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("--list", "--scenario-dir", PACK) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == ["short:", "  short__forgotten", "  short__order"]
    assert "  cafe__two_lattes (embedded)" in lines
    assert lines[0] == "cafe:"


def test_the_domains_come_first_where_both_lists_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("--list", "--list-domains") == 0
    assert capsys.readouterr().out.startswith("Available domains:")


def test_a_pack_with_a_mistake_is_a_warning_and_the_rest_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "domain.yaml").write_bytes(Path(PACK, "domain.yaml").read_bytes())
    (pack / "a.yaml").write_text("- {name: good__one, description: x}\n- {name: bad__one}\n")
    assert _exit_code("--list", "--scenario-dir", str(pack)) == 0
    printed = capsys.readouterr()
    assert "  good__one" in printed.out.splitlines()
    assert printed.err.startswith("WARNING: ")
    assert "a.yaml:2" in printed.err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("--version") == 0
    assert capsys.readouterr().out == f"voiceeval-tui {__version__}\n"


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("--help") == 0
    text = capsys.readouterr().out
    for option in ("--demo", "--pair", "--scenario-dir", "--auto-retry-backoff-secs", "--no-ui", "bots"):
        assert option in text


def _session(folder: Path) -> Path:
    (session,) = folder.glob("eval_*")
    return session


def test_a_run_whose_scenarios_all_have_a_result_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent, user = HostileBot(says_goodbye), HostileBot()
    command = [
        "--scenario-dir",
        PACK,
        "--domain",
        "short",
        "--pause",
        "0",
        "--output-dir",
        "out",
        "--min-agent-turns",
        "0",
        "--max-auto-retries",
        "0",
    ]
    command += NO_JUDGE
    with serving(agent, user):
        command += ["--agent-url", agent.url, "--user-url", user.url]
        assert _exit_code(*command) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    session = _session(tmp_path / "out")
    assert printed.out.rstrip().endswith(str(Path("out") / session.name / "all_summary.txt"))
    (record,) = json.loads((session / "run_args.json").read_text())["invocations"]
    assert record["argv"] == command
    assert (record["resolved_scenario_count"], record["resolved_scenario_names"]) == (2, ["short__forgotten", "short__order"])
    parsed = record["parsed_args"]
    assert parsed["output_dir"] == str(tmp_path / "out")
    assert parsed["scenario_dir"] == [PACK]
    assert (parsed["domain"], parsed["scenarios"], parsed["duration"], parsed["pause"]) == ("short", None, None, 0.0)
    assert (parsed["agent_url"], parsed["user_url"], parsed["audio_chunk_in_seconds"]) == (agent.url, user.url, 0.016)
    assert (parsed["conversation_end_policy"], parsed["auto_resume_on_stale"], parsed["strict_match"]) == ("tool-only", True, False)


def test_every_option_of_a_run_has_its_name_and_default_as_others_read_it() -> None:
    parsed = dict(RunOptions().parsed_args())
    reference = {
        "user_url": "ws://localhost:8766",
        "agent_url": "ws://localhost:8765",
        "output_dir": str(Path.cwd() / "eval_results"),
        "scenarios": None,
        "domain": None,
        "audio_chunk_in_seconds": 0.016,
        "duration": None,
        "pause": 0.5,
        "output_sample_rate": 16000,
        "strict_match": False,
        "min_agent_turns": 2,
        "auto_resume_on_stale": True,
        "max_auto_retries": 1,
        "auto_retry_backoff_secs": 5.0,
        "conversation_end_policy": "tool-only",
        "inactivity_timeout": 120.0,
    }
    assert {name: parsed[name] for name in reference} == reference
    assert json.loads(json.dumps(parsed)) == parsed


def _never_run(folder: Path, *arguments: str) -> str:
    assert (
        _exit_code(*ORDER, *NO_JUDGE, "--output-dir", "out", "--pause", "0", "--auto-retry-backoff-secs", "0.01", *arguments) == 1
    )
    return (_session(folder / "out") / "all_summary.txt").read_text()


def test_ports_where_nothing_listens_end_with_1_and_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = _never_run(tmp_path, "--agent-url", "ws://127.0.0.1:9", "--user-url", "ws://127.0.0.1:7")
    printed = capsys.readouterr()
    assert "user bot at ws://127.0.0.1:7: nothing listens there (connection refused)" in printed.out
    assert "short__order (set-up: " in summary
    assert "Traceback" not in printed.out + printed.err


def test_bots_that_refuse_end_with_1_and_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent, user = HostileBot(replies={"reset": Refusal("closed today")}), HostileBot()
    with serving(agent, user):
        _never_run(tmp_path, "--pair", f"{agent.url},{user.url}")
    printed = capsys.readouterr()
    assert "not run  short__order: set-up: agent bot refused reset: closed today" in printed.out
    assert "Traceback" not in printed.out + printed.err


def test_tls_to_a_bot_that_has_none_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent, user = HostileBot(), HostileBot()
    with serving(agent, user):
        _never_run(tmp_path, "--pair", f"{agent.url.replace('ws:', 'wss:')},{user.url}")
    _tells_of_tls(capsys)


def test_tls_to_another_server_that_has_none_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent, user = _Plain(b"HTTP/1.1 400 Bad Request\r\n\r\n"), HostileBot()
    with serving(agent, user):
        _never_run(tmp_path, "--pair", f"{agent.url.replace('ws:', 'wss:')},{user.url}")
    _tells_of_tls(capsys)


def _tells_of_tls(capsys: pytest.CaptureFixture[str]) -> None:
    printed = capsys.readouterr()
    assert "agent bot at wss://" in printed.out
    assert "TLS" in printed.out
    assert "Error" not in printed.out, "a sentence, not the name of an exception"
    assert "Traceback" not in printed.out + printed.err


class _Plain(AbstractAsyncContextManager[Any]):
    """A TCP server that is no WebSocket server: it says `words` and hangs up."""

    def __init__(self, words: bytes) -> None:
        self._words = words

    async def __aenter__(self) -> _Plain:
        import asyncio

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(self._words)
            writer.close()

        self._server = await asyncio.start_server(talk, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        await self._server.wait_closed()


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 404 \x1b[31mred\r\n\r\n",
        b"\x00" * 70000,
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n",
        b"HTTP/1.1 301 Moved\r\nLocation: ws://127.0.0.1:9/\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
    ids=["nothing", "ssh", "http", "http_evil", "zeros", "redirect_http", "redirect_ws", "no_upgrade"],
)
def test_a_server_that_speaks_something_else_is_a_sentence(
    words: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user, agent = _Plain(words), HostileBot()
    with serving(user, agent):
        _never_run(tmp_path, "--agent-url", agent.url, "--user-url", user.url)
    printed = capsys.readouterr()
    (line,) = [line for line in printed.out.splitlines() if " not run  short__order: " in line]
    assert f"set-up: user bot at {user.url}: " in line
    assert "Traceback" not in printed.out + printed.err
    assert all(line.isprintable() for line in printed.out.splitlines())


def test_an_output_that_takes_no_such_characters_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    agent, user = HostileBot(replies={"reset": Refusal("今日は休み" * 100)}), HostileBot()
    with serving(agent, user):
        _never_run(tmp_path, "--pair", f"{agent.url},{user.url}")
    sys.stdout.flush()
    assert b"\\u4eca" in raw.getvalue()
    assert b"did not run" in raw.getvalue()
