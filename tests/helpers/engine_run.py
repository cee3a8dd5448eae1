"""Runs the engine over scenarios of a test's own making and keeps everything that a test may ask about."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voiceeval_engine.live import events
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.scenarios.model import Scenario, ScenarioError
from voiceeval_engine.scenarios.script import Script, Step, render_prompt
from voiceeval_tui.plain import PlainOutput

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [\w.<>]+:[\w.<>]+:\d+ \| \[(DEBUG|INFO|WARNING|ERROR)\]: ")
QUICK: dict[str, Any] = {
    "judge_url": "",
    "pause": 0.0,
    "duration": 30.0,
    "inactivity_timeout": 2.5,
    "min_agent_turns": 1,
    "auto_retry_backoff_secs": 0.01,
}


def scenario(name: str, agent: Sequence[Step] = (), user: Sequence[Step] = (), **fields: Any) -> Scenario:
    """A scenario without tools or database; its scripts are for the embedded bots."""
    values: dict[str, Any] = {
        "domain": "cafe",
        "description": "A test.",
        "max_duration": 30.0,
        "agent_prompt": render_prompt("Talk.", Script(name=name, steps=tuple(agent)) if agent else None),
        "user_prompt": render_prompt("Talk.", Script(name=name, steps=tuple(user)) if user else None),
        "success_signals": ("clean_exit",),
        "user_tools": {},
        "agent_tools": {},
        "user_state": {},
        "agent_state": {},
    }
    return Scenario(name=name, **{**values, **fields})


@dataclass(frozen=True)
class Source:
    """Scenarios by name; an entry that is an exception is raised, one that is callable is called."""

    entries: Mapping[str, Any]

    def get(self, name: str) -> Scenario:
        entry = self.entries.get(name)
        if entry is None:
            raise ScenarioError(f"there is no scenario {name!r}")
        if isinstance(entry, BaseException):
            raise entry
        found = entry() if callable(entry) else entry
        assert isinstance(found, Scenario)
        return found

    def close(self) -> None:
        """There is nothing to let go."""


@dataclass(frozen=True)
class Ran:
    """A finished run: what it returned, left on disk, told its listeners and printed."""

    complete: bool
    session: Path
    events: list[events.Event]
    printed: str
    tasks_left: list[str]

    def of(self, name: str, kind: type[Any]) -> list[Any]:
        """A scenario's events of one kind."""
        return [each for each in self.events if isinstance(each, kind) and each.scenario == name]

    def metrics(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.session / name / "metrics.json").read_text())
        return found

    def has_result(self, name: str) -> bool:
        return (self.session / name / "metrics.json").exists()

    def not_run(self, name: str) -> str:
        """Why a scenario did not run."""
        (event,) = self.of(name, events.ScenarioNotRun)
        assert not self.has_result(name)
        return str(event.reason)

    @property
    def log(self) -> str:
        return (self.session / "evaluation_log.txt").read_bytes().decode()

    def bridge_log(self, name: str) -> str:
        return (self.session / name / "bridge_log.txt").read_text()


def run_engine(
    output_dir: Path,
    pairs: Sequence[Any],
    scenarios: Any,
    names: Sequence[str] | None = None,
    *,
    watch: Callable[[Runner, events.Event], None] | None = None,
    **options: Any,
) -> Ran:
    """Run `names` (default: all of `scenarios`, a mapping or a source) on `pairs` of bots or of URLs; agent first in each."""
    source = Source(scenarios) if isinstance(scenarios, Mapping) else scenarios
    urls = tuple((_url(agent), _url(user)) for agent, user in pairs)
    given = RunOptions(output_dir=output_dir, pair=urls, **{**QUICK, **options})
    seen: list[events.Event] = []
    out = io.StringIO()

    async def run() -> Ran:
        runner = Runner(given, source, list(names or scenarios), ["--of", "a test"], [seen.append, PlainOutput(out)])
        if watch is not None:
            runner._journal.listen(lambda event: watch(runner, event))
        complete = await runner.run()
        left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        return Ran(complete, runner.session, seen, out.getvalue(), left)

    return asyncio.run(run())


def _url(bot: Any) -> str:
    return bot if isinstance(bot, str) else str(bot.url)
