"""Whether a run could start now: the engine's check, but bots that another run uses are left alone. `--preflight` prints it.

It waits for the engine's answer: call it in a thread. May import the standard library, the engine's `run/options`, `listing`, `starting`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from voiceeval_engine.run.options import RunOptions
from voiceeval_tui.listing import used_by
from voiceeval_tui.starting import Checked, Finding, check

MAX_ASKED = 3


def preflight(options: RunOptions, key: str | None = None) -> Checked:
    """What a check finds. Raises StartError."""
    other = used_by(options.output_dir, options)
    checked = check(options, key, bots=other is None)
    if other is None:
        return checked
    found = f"{other.name} runs on one of them, and a bot talks to one client at a time: they are not asked"
    used = Finding("bots", "", False, found, "wait until that run has ended (voiceeval-tui status), or use others")
    return replace(checked, findings=(used, *checked.findings))


def first_wrong(checked: Checked) -> list[str]:
    """Lines of the first that are wrong, for a question that needs room for its answers, and how many more there are."""
    wrong = lines(each for each in checked.findings if not each.good)
    return wrong[:MAX_ASKED] + [f"and {len(wrong) - MAX_ASKED} more"] * (len(wrong) > MAX_ASKED)


def lines(findings: Iterable[Finding]) -> list[str]:
    """One line a finding."""
    return [f"{'ok' if each.good else 'WRONG':<5}  {each}" for each in findings]
