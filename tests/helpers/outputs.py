"""Output directories with sessions in every state, as files only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.session import layout


def metrics(
    *, verdict: bool | str = True, turns: int = 5, responses: int = 5, failed: Sequence[str] = (), **more: Any
) -> dict[str, Any]:
    """A scenario's `metrics.json`, its keys in the order that runs write them."""
    return {
        "total_turns": turns, "turns": [{"timestamp": "2026-06-18T07:23:25", "role": "agent", "text": '"is_successful": true'}],
        "scenario_duration": 10.0, "stop_reason": "[EXIT]" if responses > 1 else "[TIMEOUT]",
        "token_usage": {"agent": {"n_calls": responses}}, "success_breakdown": {"failed": list(failed)}, "auto_retry_count": 0,
        **more, "is_successful": verdict, "is_task_successful": verdict,
    }  # fmt: skip


def put_result(session: Path, name: str, value: Any = None, judge: str | None = None) -> None:
    """A scenario's folder with its metrics, and what the judge said where it is given."""
    folder = session / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / layout.METRICS).write_text(value if isinstance(value, str) else json.dumps(value or metrics(), indent=2))
    if judge is not None:
        (folder / layout.JUDGE_RESULT).write_text(json.dumps({"score": 0.0, "reason": judge}))


def put_record(session: Path, names: Sequence[str], **options: Any) -> RunOptions:
    """One more invocation, of these scenarios."""
    session.mkdir(parents=True, exist_ok=True)
    given = RunOptions(**{"output_dir": session.parent, **options})
    path = session / layout.RUN_ARGS
    before = json.loads(path.read_text())["invocations"] if path.exists() else []
    record = {
        "started_at": "2026-06-18T07:23:25", "argv": [], "parsed_args": dict(given.parsed_args()),
        "resolved_scenario_count": len(names), "resolved_scenario_names": list(names),
    }  # fmt: skip
    path.write_text(json.dumps({"invocations": [*before, record]}))
    return given


def put_session(output_dir: Path, number: int, names: Sequence[str], done: int, *, finished: bool = False, **options: Any) -> Path:
    """Session `number` of a day, of our engine, with results of the first `done` of `names`, every third of which failed."""
    session = output_dir / f"eval_20260618_{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}"
    put_record(session, names, **options)
    (session / layout.LOCK).touch()
    for place, name in enumerate(names[:done]):
        put_result(session, name, metrics(verdict=place % 3 != 2, failed=() if place % 3 != 2 else ["db_state_match"]))
    if finished:
        (session / layout.ALL_SUMMARY).write_text("done\n")
    return session
