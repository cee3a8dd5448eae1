"""Running pairs as a program: `python -m voiceeval_engine.bots --pairs N`.

Prints one line a pair once it listens, one for the judge where it is asked for, and serves until it is told to end by a signal or,
where asked for, by its standard input coming to its end, so a parent that dies takes it along. May import its own folder and the
standard library.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from http.server import ThreadingHTTPServer

from voiceeval_engine.bots.judge import judge_server
from voiceeval_engine.bots.script import Attempts
from voiceeval_engine.bots.server import BotError, BotPair

AGENT_PORT = 8765
USER_PORT = 8766
LAST_PORT = 65535


async def serve_pairs(
    pairs: int,
    agent_port: int = AGENT_PORT,
    user_port: int = USER_PORT,
    *,
    judge_port: int | None = None,
    end_with_stdin: bool = False,
) -> None:
    """Serve `pairs` pairs until SIGTERM, SIGINT or, if asked for, the end of standard input; then close all within a second.

    Pair i (from 0) takes the given ports + 2 * i; port 0 means a free port for every bot of that side. With `judge_port` the embedded
    judge is served too. Raises BotError where a port cannot be had.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if end_with_stdin:
        threading.Thread(target=_watch_stdin, args=(loop, stop), daemon=True).start()
    attempts = Attempts()
    started: list[BotPair] = []
    judge = None if judge_port is None else _start_judge(judge_port)
    try:
        for index in range(pairs):
            pair = BotPair(agent_port=_port(agent_port, index), user_port=_port(user_port, index), attempts=attempts)
            await pair.start()
            started.append(pair)
            print(f"pair {index + 1}: agent {pair.agent.url} user {pair.user.url}", flush=True)
        if judge is not None:
            print(f"judge http://127.0.0.1:{judge.server_port}/v1/chat/completions", flush=True)
        await stop.wait()
    finally:
        if judge is not None:
            await asyncio.to_thread(judge.shutdown)
            judge.server_close()
        await asyncio.gather(*(pair.close() for pair in started))


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns its exit code: 0, or 1 where a port cannot be had."""
    parser = argparse.ArgumentParser(prog="voiceeval-tui bots", description="Scripted pairs of bots to point a harness at.")
    parser.add_argument("--pairs", type=_positive, default=1, metavar="N", help="how many pairs (1)")
    parser.add_argument("--agent-port", type=_port_number, default=AGENT_PORT, metavar="PORT", help="the first agent's port (8765)")
    parser.add_argument("--user-port", type=_port_number, default=USER_PORT, metavar="PORT", help="the first user's port (8766)")
    parser.add_argument(
        "--judge-port", type=_port_number, metavar="PORT", help="serve the embedded judge there too (0 = a free port)"
    )
    parser.add_argument("--end-with-stdin", action="store_true", help="end when standard input does")
    options = parser.parse_args(arguments)
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    try:
        asyncio.run(
            serve_pairs(
                options.pairs,
                options.agent_port,
                options.user_port,
                judge_port=options.judge_port,
                end_with_stdin=options.end_with_stdin,
            )
        )
    except BotError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _start_judge(port: int) -> ThreadingHTTPServer:
    try:
        server = judge_server(port)
    except OSError as error:
        raise BotError(f"the judge cannot listen on port {port}: {error.strerror or error}") from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _port(first: int, index: int) -> int:
    return first + 2 * index if first else 0


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _port_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port (0 to {LAST_PORT})")
    return int(text)


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # os.read, not sys.stdin: its lock would hang the interpreter's shutdown.
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    if not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)
