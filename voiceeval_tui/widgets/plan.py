"""What a resume would do: every scenario with its reason, and under it what speaks for or against starting it now.

Rule: console page (the picture of the resume preview).
"""

from __future__ import annotations

from collections.abc import Sequence

from voiceeval_engine.session.resume import Classified
from voiceeval_tui.cells import fit, wrap
from voiceeval_tui.resuming import ResumePlan
from voiceeval_tui.starting import Checked
from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import View
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.pane import Band, Pane, Row

_KINDS: dict[str, tuple[str, StyleName]] = {
    "in-flight": ("re-run", "warn"),
    "fresh": ("fresh", "accent"),
    "completed": ("done", "dim"),
}
_KIND, _LABEL = 8, 9
_NAME = 44
"""Cells of a name at most, where the reason needs the rest."""
MAX_FACTS = 9


class PlanPane(ListPane):
    """Those that would run first, then those that are complete."""

    NAME = "plan"
    TITLE = "what a resume does"

    def __init__(self) -> None:
        super().__init__()
        self._scenarios: dict[str, Classified] = {}
        self._name_cells = 12

    def put(self, plan: ResumePlan) -> None:
        completed = [each for each in plan.scenarios if each.state == "completed"]
        self._scenarios = {each.name: each for each in (*plan.again, *completed)}
        self.redraw()

    def collect(self) -> int:
        longest = max(map(len, self._scenarios), default=0)
        self._name_cells = max(12, min(longest, _NAME, self.row_width // 2 - _KIND))
        return super().collect()

    def items(self, view: View) -> Sequence[str]:
        return list(self._scenarios)

    def item_row(self, view: View, key: str, width: int) -> Row:
        each = self._scenarios[key]
        kind, style = _KINDS[each.state]
        return (
            (f" {fit(kind, _KIND)}", style),
            (fit(key, self._name_cells), "strong" if each.state != "completed" else "dim"),
            (f"  {fit(self.whole(view, key), self.room(width))}", "text" if each.state != "completed" else "dim"),
        )

    def whole(self, view: View, key: str) -> str:
        """As `ListPane`: the reason."""
        each = self._scenarios[key]
        again = f"already auto-retried {each.auto_retry_count}x in-run" if each.auto_retry_count else ""
        return "; ".join(filter(None, (each.reason, again)))

    def room(self, width: int) -> int:
        return max(0, width - 1 - _KIND - self._name_cells - 2)


class PlanHeader(Band):
    """The question and the counts."""

    DEFAULT_CSS = "PlanHeader { dock: top; height: 1; }"

    NAME = "header"

    def __init__(self, session: str) -> None:
        super().__init__()
        self._session = session
        self._plan: ResumePlan | None = None

    def put(self, plan: ResumePlan) -> None:
        self._plan = plan
        self.redraw()

    def rows(self, view: View, width: int) -> Sequence[Row]:
        plan = self._plan
        if plan is None:
            return (((f" Resume {self._session}?", "title"), ("  reading", "dim")),)
        told: Row = () if plan.obstacle else (
            (f"  {plan.count('completed')} completed", "ok"), (f"  {plan.count('in-flight')} re-run", "warn"),
            (f"  {plan.count('fresh')} fresh ", "accent"),
        )  # fmt: skip
        room = max(1, width - sum(len(text) for text, _ in told))
        return (((fit(f" Resume {self._session}?", room), "title"), *told),)


class FactsPane(Pane, can_focus=False):
    """Differences, bots, judge, floor, obstacle. Its height follows what it has to say, up to MAX_FACTS lines."""

    DEFAULT_CSS = """
    FactsPane { position: relative; width: 100%; height: 3; }
    """

    NAME = "facts"
    TITLE = "before it starts"

    def __init__(self) -> None:
        super().__init__()
        self._plan: ResumePlan | None = None
        self._checked: Checked | str = ""

    def put(self, plan: ResumePlan | None, checked: Checked | str) -> None:
        """`checked` is a sentence while there is no result."""
        self._plan, self._checked = plan, checked
        self.fold()

    def fold(self) -> None:
        """Take the height that the words need."""
        self.styles.height = min(MAX_FACTS, len(self.rows(self.view, max(20, self.row_width)))) + 1
        self.redraw()

    def on_resize(self) -> None:
        """Words are broken for a width."""
        self.fold()

    def rows(self, view: View, width: int) -> Sequence[Row]:
        return [
            ((f" {fit(label if not number else '', _LABEL)}", style), (line, style if style == "bad" else "text"))
            for label, words, style in self._facts()
            for number, line in enumerate(wrap(words, max(10, width - _LABEL - 2), most=3))
        ]

    def _facts(self) -> list[tuple[str, str, StyleName]]:
        plan = self._plan
        if plan is None:
            return [("", "reading the session", "dim")]
        if plan.obstacle:
            return [("cannot", plan.obstacle, "bad")]
        facts: list[tuple[str, str, StyleName]] = []
        if plan.count("completed") == len(plan.scenarios):
            facts.append(("complete", "all scenarios are complete: nothing to resume but verdicts that are still out", "ok"))
        facts += [("differs", f"{line}  (scores would mix)", "warn") for line in plan.differs]
        facts += [("note", note, "info") for note in plan.notes]
        if plan.left_out:
            facts.append(("left out", f"on disk but not in the queue: {', '.join(plan.left_out)}", "warn"))
        facts += self._answers()
        floor = (
            f"fewer than {plan.floor} agent responses are a stall and run again" if plan.floor else "off: no response is too few"
        )
        return [*facts, ("floor", floor, "dim")]

    def _answers(self) -> list[tuple[str, str, StyleName]]:
        checked = self._checked
        if isinstance(checked, str):
            return [("bots", checked, "dim")] if checked else []
        labels = {"agent": "bots", "user": "bots"}
        told = [each for each in checked.findings if not each.good or each.subject in (*labels, "judge")]
        return [(labels.get(each.subject, each.subject), str(each), "ok" if each.good else "bad") for each in told]
