"""The command at the edges: a `.env` that is none, a full standard output, the judge's key where it should not be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from bot_farm import serving
from hostile_bots import HostileBot, Refusal, says_goodbye
from judges import WatchedJudge

from voiceeval_tui.cli import main

SCRIPT = str(Path(sys.executable).with_name("voiceeval-tui"))
PACK = str(Path(__file__).parent.parent / "data" / "short_pack")
PATIENCE = 60.0
KEY = "sk-s3cret+Key/0815=="
COMMAND = [
    "--scenario-dir", PACK, "--scenarios", "short__order", "--output-dir", "out", "--pause", "0", "--min-agent-turns", "0",
    "--max-auto-retries", "0",
]  # fmt: skip


def _environment(**more: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "JUDGE_API_KEY", "OTHER_KEY")}
    return ours | more


def _run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [SCRIPT, *arguments], cwd=cwd, env=_environment(**environment), capture_output=True, check=False, timeout=PATIENCE
    )


# -- the judge's key

SOURCES: dict[str, tuple[list[str], dict[str, str], str]] = {
    "option": (["--judge-api-key", KEY], {}, ""),
    "option_with_equals": ([f"--judge-api-key={KEY}"], {}, ""),
    "environment": ([], {"JUDGE_API_KEY": KEY}, ""),
    "environment_by_name": (["--judge-api-key-name", "OTHER_KEY"], {"OTHER_KEY": KEY}, ""),
    "dotenv": ([], {}, f'JUDGE_API_KEY="{KEY}"\n'),
}
SPELLINGS = {"bare": KEY, "encoded": quote(KEY, safe=""), "encoded_in_lower_case": quote(KEY, safe="").replace("%2B", "%2b")}
REFUSING: dict[str, dict[str, Any]] = {
    "refuses": {"reset": Refusal("not today")},
    "refuses_quoting_the_key": {"reset": Refusal(f"no such token: {KEY}")},
    "refuses_later": {"apply_initialization": {"success": False, "errors": [f"token {KEY} has expired"]}},
}


def _found(where: Path, *outputs: bytes) -> list[str]:
    """Where the key stands, in any spelling."""
    spellings = {each.lower().encode() for each in (KEY, quote(KEY), quote(KEY, safe=""), quote_plus(KEY))}
    contents = {str(path): path.read_bytes() for path in where.rglob("*") if path.is_file()}
    assert contents, "a session was made"
    contents |= {f"output {number}": output for number, output in enumerate(outputs)}
    return [name for name, content in contents.items() if any(each in (content + name.encode()).lower() for each in spellings)]


@pytest.mark.parametrize(
    ("source", "spelling", "trouble"),
    [(source, "bare", "refuses") for source in SOURCES]
    + [("option", spelling, "refuses") for spelling in SPELLINGS if spelling != "bare"]
    + [("environment", "encoded", trouble) for trouble in (*REFUSING, "no_tls")],
)
def test_the_judges_key_in_the_urls_of_bots_that_refuse_stands_nowhere(
    tmp_path: Path, source: str, spelling: str, trouble: str
) -> None:
    given, environment, dotenv = SOURCES[source]
    if dotenv:
        (tmp_path / ".env").write_text(dotenv)
    query = f"?token={SPELLINGS[spelling]}"
    agent, user = HostileBot(replies=REFUSING.get(trouble)), HostileBot()
    with serving(agent, user), WatchedJudge() as judge:
        urls = [bot.url.replace("ws:", "wss:") if trouble == "no_tls" else bot.url for bot in (agent, user)]
        done = _run(
            *COMMAND, "--agent-url", f"{urls[0]}/{query}", "--user-url", f"{urls[1]}/{query}",
            "--judge-url", judge.url + query, *given, cwd=tmp_path, **environment,
        )  # fmt: skip
    assert done.returncode == 1
    assert b"not run  short__order: set-up: " in done.stdout
    assert _found(tmp_path / "out", done.stdout, done.stderr) == []
    assert b"<redacted>" in done.stdout, "it would have been there"


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("refuses", [False, True], ids=["judge_answers", "judge_refuses_quoting_the_key"])
def test_the_judges_key_in_the_urls_of_a_run_with_a_result_stands_nowhere(tmp_path: Path, source: str, refuses: bool) -> None:
    given, environment, dotenv = SOURCES[source]
    if dotenv:
        (tmp_path / ".env").write_text(dotenv)
    query = f"?token={KEY}"
    agent, user = HostileBot(says_goodbye), HostileBot()
    with serving(agent, user), WatchedJudge(refuses=refuses) as judge:
        done = _run(
            *COMMAND, "--pair", f"{agent.url}/{query},{user.url}/{query}", "--judge-url", judge.url + query, *given,
            cwd=tmp_path, **environment,
        )  # fmt: skip
        assert judge.asked >= 1
    assert (done.returncode, done.stderr) == (0, b"")
    assert _found(tmp_path / "out", done.stdout, done.stderr) == []
    (result,) = (tmp_path / "out").glob("eval_*/short__order/judge_result.json")
    assert (b"401" in result.read_bytes()) is refuses


@pytest.mark.parametrize("source", ["option", "environment"])
def test_the_judges_key_in_the_url_of_a_judge_that_is_not_there_stands_nowhere(tmp_path: Path, source: str) -> None:
    given, environment, _ = SOURCES[source]
    agent, user = HostileBot(replies={"reset": Refusal("not today")}), HostileBot()
    with serving(agent, user):
        done = _run(
            *COMMAND, "--agent-url", agent.url, "--user-url", user.url, "--judge-url", f"http://127.0.0.1:9/v1?key={KEY}", *given,
            cwd=tmp_path, **environment,
        )  # fmt: skip
    assert b"CANNOT BE REACHED" in done.stdout
    assert b"<redacted>" in done.stdout
    assert _found(tmp_path / "out", done.stdout, done.stderr) == []


# -- a `.env` that is none

BAD_DOTENV = {
    "latin1": "JUDGE_API_KEY=schlüssel\n".encode("latin-1"),
    "utf16": "JUDGE_API_KEY=k\n".encode("utf-16"),
    "binary": bytes(range(256)),
}


@pytest.fixture
def bots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The command with bots that work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JUDGE_API_KEY", raising=False)
    agent, user = HostileBot(says_goodbye), HostileBot()
    with serving(agent, user):
        yield [*COMMAND, "--agent-url", agent.url, "--user-url", user.url]


@pytest.mark.parametrize("content", BAD_DOTENV.values(), ids=BAD_DOTENV)
def test_a_dotenv_that_is_not_utf8_is_a_sentence_where_the_key_is_looked_for(
    tmp_path: Path, bots: list[str], content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".env").write_bytes(content)
    with WatchedJudge() as judge:
        assert main([*bots, "--judge-url", judge.url]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("ERROR: .env cannot be read: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (tmp_path / "out").exists(), "nothing was begun"


@pytest.mark.parametrize("content", BAD_DOTENV.values(), ids=BAD_DOTENV)
@pytest.mark.parametrize("how", ["--judge-url=", "--judge-model=", "--judge-api-key=given", "environment"])
def test_a_dotenv_that_nobody_needs_is_no_trouble(
    tmp_path: Path, bots: list[str], content: bytes, how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_bytes(content)
    if how == "environment":
        monkeypatch.setenv("JUDGE_API_KEY", "given")
    with WatchedJudge() as judge:
        given = ["--judge-url", judge.url] if how != "--judge-url=" else []
        assert main([*bots, *given, *([how] if how.startswith("--") else [])]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("content", BAD_DOTENV.values(), ids=BAD_DOTENV)
def test_a_dotenv_that_is_not_utf8_is_a_sentence_of_a_rejudge_too(
    tmp_path: Path, bots: list[str], content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with WatchedJudge() as judge:
        assert main([*bots, "--judge-url", judge.url]) == 0
        (session,) = (tmp_path / "out").glob("eval_*")
        capsys.readouterr()
        (tmp_path / ".env").write_bytes(content)
        before = {path: path.read_bytes() for path in session.rglob("*") if path.suffix in (".json", ".csv")}
        assert main(["rejudge", str(session), "--judge-url", judge.url]) == 1
    assert capsys.readouterr().err.startswith("ERROR: .env cannot be read: ")
    assert {path: path.read_bytes() for path in before} == before


# -- a standard output that is full


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device here")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", [["--list"], ["--list-domains"], ["check-resume", "."]], ids=lambda each: each[0])
def test_a_list_into_a_full_device_ends_with_a_sentence(tmp_path: Path, arguments: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [SCRIPT, *arguments], cwd=tmp_path, env=_environment(PYTHONUNBUFFERED=unbuffered), stdout=full, stderr=subprocess.PIPE,
            check=False, timeout=PATIENCE, text=True,
        )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR: ")
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device here")
@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_into_a_full_device_is_no_traceback(tmp_path: Path, argument: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [SCRIPT, argument], cwd=tmp_path, env=_environment(), stdout=full, stderr=subprocess.PIPE, check=False, timeout=PATIENCE
        )
    assert b"Traceback" not in done.stderr
