"""What a bench found, as plain text: tables of cells and the list of figures beside their bounds. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured figure: `command` gives it again, `bound` is what is allowed (None: told for information only), `reference` what the
    field's reference harness takes, where that is known.
    """

    command: str
    what: str
    value: float
    unit: str
    bound: float | None = None
    digits: int = 2
    reference: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the figure is beyond its bound; a figure that could not be had (NaN) is."""
        return self.bound is not None and not self.value <= self.bound

    def cells(self) -> tuple[str, ...]:
        """The row of `print_figures`."""
        bound = "" if self.bound is None else f"{self.bound:g} {self.unit}"
        reference = "" if self.reference is None else f"{self.reference:g} {self.unit}"
        verdict = "" if self.bound is None else "MISSED" if self.missed else "met"
        return self.command, self.what, f"{self.value:.{self.digits}f} {self.unit}", bound, verdict, reference


def print_figures(title: str, figures: Sequence[Figure]) -> None:
    """Print figures with command, bound, whether it was met, and the reference's where it is known."""
    print_table(title, ("command", "what", "measured", "bound", "", "reference"), [figure.cells() for figure in figures])


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, its columns as wide as their cells; columns of numbers alone stand on the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    numbers = [all(not row[column] or row[column][0] in "+-0123456789" for row in rows) for column in range(len(head))]
    print(f"\n{title}")
    for row in (head, ["-" * width for width in widths], *rows):
        cells = (cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, numbers, strict=True))
        print("  ".join(cells).rstrip(), flush=True)


def print_markdown(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as the README holds it; all columns but the first stand on the right."""
    print(f"\n{title}")
    for row in (head, ["---", *["--:"] * (len(head) - 1)], *rows):
        print(f"| {' | '.join(row)} |", flush=True)
