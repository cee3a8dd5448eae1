"""The embedded pairs in a process of their own: `python -m tests.bench.bots_child PAIRS`, on free ports.

Prints a line a pair when it listens, serves until its standard input ends (so it never outlives its parent), then prints as one line
of JSON what the agents themselves measured: a list a pair of [heard_end, speech_due] in s of the process's monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys

from voiceeval_engine.bots.server import BotPair


async def serve(count: int) -> None:
    """Serve `count` pairs until standard input ends."""
    pairs = [BotPair() for _ in range(count)]
    try:
        for pair in pairs:
            await pair.start()
            print(pair.agent.url, pair.user.url, flush=True)
        await input_ends()
    finally:
        await asyncio.gather(*(pair.close() for pair in pairs))
    print(json.dumps([[[each.heard_end, each.speech_due] for each in pair.agent.handoffs] for pair in pairs]), flush=True)


async def input_ends() -> None:
    """Until whoever started this process closes its standard input, or dies."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    asyncio.run(serve(int(sys.argv[1])))
