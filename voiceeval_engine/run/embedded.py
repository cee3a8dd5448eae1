"""The embedded pairs as the engine's child process, for `--demo`: on free ports, ended with the engine whatever happens to it.

May import the standard library only. Rule: running page, "Commands", `--demo`.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

START_TIMEOUT = 20.0
STOP_TIMEOUT = 3.0
_LINE = re.compile(r"pair \d+: agent (ws://\S+) user (ws://\S+)")


class EmbeddedPairsFailed(Exception):
    """The embedded pairs did not start; the message says why."""


@asynccontextmanager
async def embedded_pairs(count: int) -> AsyncIterator[tuple[tuple[str, str], ...]]:
    """`count` running pairs as (agent URL, user URL); they end when the block does, or with the process that waits for it."""
    command = ("-m", "voiceeval_engine.bots", "--pairs", str(count), "--agent-port", "0", "--user-port", "0", "--end-with-stdin")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield await _read_urls(process, count)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _read_urls(process: asyncio.subprocess.Process, count: int) -> tuple[tuple[str, str], ...]:
    if process.stdout is None:
        raise EmbeddedPairsFailed("the embedded pairs have no output to read")
    pairs: list[tuple[str, str]] = []
    try:
        async with asyncio.timeout(START_TIMEOUT):
            while len(pairs) < count:
                line = (await process.stdout.readline()).decode(errors="replace")
                if not line:
                    raise EmbeddedPairsFailed(f"the embedded pairs ended at once (exit code {await process.wait()})")
                if found := _LINE.match(line):
                    pairs.append((found.group(1), found.group(2)))
    except TimeoutError:
        raise EmbeddedPairsFailed(f"the embedded pairs did not start within {START_TIMEOUT:g} s") from None
    return tuple(pairs)
