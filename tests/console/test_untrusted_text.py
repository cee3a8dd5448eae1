"""No markup is ever read from text: the syntax of the console's own files shows it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "voiceeval_tui"
READS_MARKUP = {"from_markup", "render_markup", "visualize"}
MUST_SAY_NO = {"Static", "Label", "notify"}
"""Calls that read markup unless they are told not to."""


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_reads_markup(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node)
        assert name not in READS_MARKUP, f"{path.name}:{node.lineno}: {name} reads markup"
        if name in MUST_SAY_NO:
            said = {keyword.arg: keyword.value for keyword in node.keywords}
            off = said.get("markup")
            assert isinstance(off, ast.Constant) and off.value is False, f"{path.name}:{node.lineno}: {name} without markup=False"  # noqa: PT018


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_titles_are_plain_content(path: Path) -> None:
    """Textual reads markup from a title that is a text; a literal of ours has none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr in ("border_title", "border_subtitle"):
                plain = isinstance(node.value, ast.Call) and _name(node.value) == "Content"
                assert plain or isinstance(node.value, ast.Constant), f"{path.name}:{node.lineno}"
