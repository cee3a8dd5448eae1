"""A run with an operator beside it: a test's own coroutine, which watches its events and commands it over its real socket."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bot_farm import serving
from engine_run import QUICK, Ran, Source, scenario
from hostile_bots import Act, HostileBot, Refusal, Stage
from websockets.asyncio.server import ServerConnection

from voiceeval_engine.live import events
from voiceeval_engine.live.commands import Command, Reply, Status, send
from voiceeval_engine.live.state import RunState
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.scenarios.model import Scenario
from voiceeval_tui.plain import PlainOutput

PATIENCE = 40.0
USAGE = {"processor": "llm", "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


async def passes(stage: Stage) -> None:
    """As an act: a conversation that ends as it should, of two responses."""
    for _ in range(2):
        await stage.event("metrics", {"tokens": [USAGE]})
    await stalls(stage)


async def stalls(stage: Stage) -> None:
    """As an act: a conversation of one response, which stalls where the floor is 2."""
    await stage.speak("Goodbye.")
    await stage.exit()


async def fails(stage: Stage) -> None:
    """As an act: a conversation without a clean exit."""
    for _ in range(2):
        await stage.event("metrics", {"tokens": [USAGE]})
    await stage.speak("I am off.")
    await stage.close()


async def says_nothing(stage: Stage) -> None:
    """As an act: an attempt without a turn, though both bots are well."""
    await stage.exit()


async def talks_on(stage: Stage) -> None:
    """As an act: a conversation without an end."""
    while True:
        await stage.speak("Nice weather today.")
        await asyncio.sleep(1.0)


def until(gate: threading.Event, act: Act = passes) -> Act:
    """As an act: `act` once the gate is open."""

    async def waits(stage: Stage) -> None:
        while not gate.is_set():
            await asyncio.sleep(0.01)
        await act(stage)

    return waits


class Cast(HostileBot):
    """An agent that plays each scenario in its own way. A test may change `acts`, `replies` and `down` while it runs."""

    def __init__(self, **acts: Act) -> None:
        super().__init__(self._play)
        self.acts = acts
        self.replies: dict[str, Any] = {}
        """By scenario: what it answers to `apply_initialization`, where that is not simply good."""
        self.down = ""
        """Why every set-up is refused, empty where it is not."""
        self.user = HostileBot()
        self._scenario = ""

    async def _play(self, stage: Stage) -> None:
        await self.acts.get(self._scenario, passes)(stage)

    async def _read(self, socket: ServerConnection, message: dict[str, Any]) -> None:
        data = message.get("data")
        if isinstance(data, dict) and data.get("t") == "update_system_prompt":
            self._scenario = data["d"]["prompt"]
        await super()._read(socket, message)

    async def _reply(self, socket: ServerConnection, t: str, id_: str) -> None:
        kept = self._replies[t]
        if t == "reset" and self.down:
            self._replies[t] = Refusal(self.down)
        elif t == "apply_initialization":
            self._replies[t] = self.replies.get(self._scenario, kept)
        try:
            await super()._reply(socket, t, id_)
        finally:
            self._replies[t] = kept


@contextlib.contextmanager
def casts(count: int = 1, **acts: Act) -> Iterator[list[Cast]]:
    """`count` agents that listen, each with a user of its own."""
    agents = [Cast(**acts) for _ in range(count)]
    with serving(*agents, *(agent.user for agent in agents)):
        yield agents


def pairs_of(agents: Sequence[Cast]) -> list[tuple[Any, Any]]:
    return [(agent, agent.user) for agent in agents]


def named(*names: str, **fields: Any) -> dict[str, Scenario]:
    """Scenarios that a Cast tells apart."""
    return {name: scenario(name, agent_prompt=name, **fields) for name in names}


class Operator:
    """What a test has in hand while the engine runs. `state` is the fold of all events so far."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.session = runner.session
        self.seen: list[events.Event] = []
        self.state = RunState()
        self._changed = asyncio.Event()

    def note(self, event: events.Event) -> None:
        self.seen.append(event)
        self.state.apply(event)
        self._changed.set()

    async def until(self, true: Callable[[], Any], what: str = "") -> None:
        """Wait until something holds, looking at it after each event and ten times a second."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not true():
            assert asyncio.get_running_loop().time() < deadline, f"{what or 'it'} did not come about: {self._shown()}"
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 0.1)

    async def until_is(self, name: str, *statuses: str) -> None:
        await self.until(lambda: self.state.scenarios and self.state.scenarios[name].status in statuses, f"{name} {statuses}")

    def status_of(self, name: str) -> str:
        return self.state.scenarios[name].status

    def count(self, kind: type[events.Event], **values: Any) -> int:
        """Events of a kind with these values."""
        return sum(
            isinstance(each, kind) and all(getattr(each, key) == value for key, value in values.items()) for each in self.seen
        )

    async def ask(self, command: str, scenario: str | None = None, *, confirmed: bool = False) -> Reply:
        return await send(self.session, Command.model_validate({"command": command, "scenario": scenario, "confirmed": confirmed}))

    async def do(self, command: str, scenario: str | None = None, *, confirmed: bool = False) -> str:
        """A command that must be obeyed, at once or in a moment; returns what was said."""
        reply = await self.ask(command, scenario, confirmed=confirmed)
        while "in a moment" in reply.message:
            await asyncio.sleep(0.01)
            reply = await self.ask(command, scenario, confirmed=confirmed)
        assert reply.ok, reply.message
        return reply.message

    async def refused(self, command: str, scenario: str | None = None, *, confirmed: bool = False) -> str:
        """A command that must be refused and has changed nothing of its scenario; returns why."""
        before = self._place_of(scenario)
        reply = await self.ask(command, scenario, confirmed=confirmed)
        assert not reply.ok, reply.message
        assert reply.message
        assert self._place_of(scenario) == before
        return reply.message

    async def status(self) -> Status:
        status = (await self.ask("status")).status
        assert status is not None
        return status

    def _place_of(self, name: str | None) -> tuple[str, int] | None:
        found = self.state.scenarios.get(name or "")
        return None if found is None else (found.status, found.attempt)

    def _shown(self) -> str:
        return ", ".join(f"{name} {each.status} #{each.attempt} {each.reason or ''}" for name, each in self.state.scenarios.items())


def drive(
    output_dir: Path,
    pairs: Sequence[tuple[Any, Any]],
    scenarios: Mapping[str, Any],
    play: Callable[[Operator], Awaitable[None]] | None = None,
    *,
    names: Sequence[str] | None = None,
    judge_key: str | None = None,
    **options: Any,
) -> Ran:
    """Run `scenarios` with `play` beside them; what `play` raises ends the run and is raised."""
    urls = tuple((str(getattr(agent, "url", agent)), str(getattr(user, "url", user))) for agent, user in pairs)
    given = RunOptions(output_dir=output_dir, pair=urls, **{**QUICK, "inactivity_timeout": 20.0, "max_auto_retries": 0, **options})
    out = io.StringIO()

    async def run() -> Ran:
        runner = Runner(
            given, Source(scenarios), list(names or scenarios), ["--of", "a test"], [PlainOutput(out)], judge_key=judge_key
        )
        operator = Operator(runner)
        runner._journal.listen(operator.note)
        running = asyncio.create_task(runner.run())
        try:
            if play is not None:
                playing = asyncio.ensure_future(play(operator))
                await asyncio.wait({running, playing}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait_for(playing, PATIENCE)
            complete = await asyncio.wait_for(asyncio.shield(running), PATIENCE)
        finally:
            if not running.done():
                runner.stop()
                await asyncio.wait({running}, timeout=PATIENCE)
        left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        return Ran(complete, runner.session, operator.seen, out.getvalue(), left)

    return asyncio.run(run())


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
