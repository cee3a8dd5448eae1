"""The embedded pairs in a process of their own: `python -m tests.bench.bots_child PAIRS [SETTING]`, on free ports.

SETTING is JSON: `clock`, how fast this process's clock runs (1.01: its bots speak 1 % too fast), and `lines`, for each pair what stands
before its agent and its user (the fields of a `Line`, or null). Prints a line a pair when it listens, serves until its standard input
ends (so it never outlives its parent), then prints as one line of JSON what the agents themselves measured: a list a pair of latencies
in s, by the right clock, from the moment the user's last loud frame came to the agent's line to the moment its answer could be heard there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import AsyncExitStack
from typing import Any

from tests.bench.line import Line, LineServer, through
from voiceeval_engine.bots.server import BotPair


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock is off."""

    factor = 1.0

    def time(self) -> float:
        return super().time() * self.factor


async def serve(lines: list[list[Any]], clock: float) -> None:
    """Serve a pair for each of `lines` until standard input ends."""
    pairs: list[tuple[BotPair, LineServer | None]] = []
    async with AsyncExitStack() as stack:
        for agent_line, user_line in lines:
            pair = await stack.enter_async_context(BotPair())
            agent, line = await through(agent_line and Line(**agent_line), pair.agent.url, stack)
            user, _ = await through(user_line and Line(**user_line), pair.user.url, stack)
            pairs.append((pair, line))
            print(agent, user, flush=True)
        await input_ends()
    print(json.dumps([[seconds / clock for seconds in _latencies(pair, line)] for pair, line in pairs]), flush=True)


def _latencies(pair: BotPair, line: LineServer | None) -> list[float]:
    return [
        each.speech_due - each.heard_end + (line.kept(each.heard_end, each.first_audio) if line else 0.0)
        for each in pair.agent.handoffs
    ]


async def input_ends() -> None:
    """Until whoever started this process closes its standard input, or dies."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    setting = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {"clock": 1.0, "lines": [[None, None]] * int(sys.argv[1])}
    _Loop.factor = setting["clock"]
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(serve(setting["lines"], setting["clock"]))
