"""The engine as a process of its own, as the console starts it: one order on standard input, one answer, then a run that outlives it.

The order is a JSON line `{"options": {...}, "argv": [...]}`, options by the names of `run_args.json`; the judge's key comes in the
environment. The answer is a JSON line, `{"session", "socket", "pid"}` or `{"error", "usage"}`; after it all output goes to the session's
`engine.log`. An order with `"ask": "scenarios"` or `"ask": "check"` starts no run and is answered as `run/asking` and `run/preflight` say;
a check with `"bots": false` leaves those alone. May import `run`.
Rule: console page, "Two processes".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import uvloop

from voiceeval_engine.live.commands import socket_path
from voiceeval_engine.run.asking import list_scenarios
from voiceeval_engine.run.judging import KeyTrouble
from voiceeval_engine.run.launch import LaunchError, make_plan, run_plan
from voiceeval_engine.run.options import OptionError, RunOptions
from voiceeval_engine.run.preflight import preflight
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.scenarios.model import ScenarioError
from voiceeval_engine.session import layout

MAX_ORDER = 4 * 2**20


def main() -> int:
    """Returns the exit code that a headless run would have."""
    try:
        order = json.loads(sys.stdin.buffer.readline(MAX_ORDER))
        options = RunOptions.from_record(order["options"])
        if (question := order.get("ask")) is not None:
            return _tell(question, order, options)
        argv = [str(word) for word in order["argv"]]
        plan = make_plan(options, all_wanted=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return _refuse(f"not an order: {error!r}", usage=True)
    except OptionError as error:
        return _refuse(str(error), usage=True)
    except LaunchError as error:
        return _refuse(str(error), usage=error.usage)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return 0 if runner.run(run_plan(plan, argv, on_session=_accept)) else 1
    except LaunchError as error:
        return _refuse(str(error), usage=error.usage)
    except OSError as error:
        return _refuse(f"the session cannot be written: {error}", usage=False)


def _tell(question: object, order: Mapping[str, Any], options: RunOptions) -> int:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a pack's Python prints is no answer
            if question == "scenarios":
                answer = list_scenarios(options)
            elif question == "check":
                answer = asyncio.run(preflight(options, bots=order.get("bots") is not False))
            else:
                answer = {"error": f"not an order: ask {question!r}", "usage": True}
    except (ScenarioError, KeyTrouble) as error:
        return _refuse(str(error), usage=False)
    _answer(answer)
    return 2 if "error" in answer else 0


def _accept(runner: Runner) -> None:
    """Tell the session, then speak to its log only."""
    _answer({"session": str(runner.session.absolute()), "socket": str(socket_path(runner.session)), "pid": os.getpid()})
    log = os.open(runner.session / layout.ENGINE_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def _refuse(sentence: str, *, usage: bool) -> int:
    _answer({"error": sentence, "usage": usage})
    return 2 if usage else 1


def _answer(answer: Mapping[str, Any]) -> None:
    """Whoever asked may be gone already: the run goes on."""
    with contextlib.suppress(OSError):
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
