"""The embedded pairs and judge as the engine's child process, for `--demo`: on free ports, ended with the engine whatever happens to it.

May import the standard library only. Rule: running page, "Commands", `--demo`.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

START_TIMEOUT = 20.0
STOP_TIMEOUT = 3.0
_PAIR = re.compile(r"pair \d+: agent (ws://\S+) user (ws://\S+)")
_JUDGE = re.compile(r"judge (http://\S+)")


class EmbeddedPairsFailed(Exception):
    """The embedded pairs did not start; the message says why."""


@dataclass(frozen=True)
class Embedded:
    """What runs: (agent URL, user URL) of each pair, and the judge's URL."""

    pairs: tuple[tuple[str, str], ...]
    judge_url: str


@asynccontextmanager
async def embedded_pairs(count: int) -> AsyncIterator[Embedded]:
    """`count` running pairs and a judge; they end when the block does, or with the process that waits for it."""
    ports = ("--agent-port", "0", "--user-port", "0", "--judge-port", "0")
    command = ("-m", "voiceeval_engine.bots", "--pairs", str(count), *ports, "--end-with-stdin")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield await _read_urls(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _read_urls(process: asyncio.subprocess.Process) -> Embedded:
    if process.stdout is None:
        raise EmbeddedPairsFailed("the embedded pairs have no output to read")
    pairs: list[tuple[str, str]] = []
    try:
        async with asyncio.timeout(START_TIMEOUT):
            while True:
                line = (await process.stdout.readline()).decode(errors="replace")
                if not line:
                    raise EmbeddedPairsFailed(f"the embedded pairs ended at once (exit code {await process.wait()})")
                if found := _PAIR.match(line):
                    pairs.append((found.group(1), found.group(2)))
                elif found := _JUDGE.match(line):
                    return Embedded(tuple(pairs), found.group(1))
    except TimeoutError:
        raise EmbeddedPairsFailed(f"the embedded pairs did not start within {START_TIMEOUT:g} s") from None
