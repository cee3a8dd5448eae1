"""The comparator of action lists: does the agent's answer hold what the reference answer asks for?

Pure: values in, a verdict with a reason out. It never raises on foreign data and is polynomial on hostile data: each pair of items
is compared once, and nested lists are matched by augmenting paths.
Rules: scoring page of the specification ("Action list" and its list of deliberate differences). May import the standard library and
lower floors only.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MAX_DEPTH = 64
"""Nesting beyond this is malformed: no action is that deep, and recursion must end before the interpreter's does."""
_RELATIVE_TOLERANCE = 1e-5
_PUNCTUATION = re.compile(r"[^\w\s]")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_MAX_DIGITS = 400

Verdict = bool | Literal["N/A"]


@dataclass(frozen=True)
class MatchRules:
    """How texts are compared, and whether extra items at the top level and in `actions` fail (`strict`)."""

    ignore_capitalization: bool = False
    ignore_punctuation: bool = False
    clean_text: bool = False
    strict: bool = False


@dataclass(frozen=True)
class ActionMatch:
    """The verdict and, for a person, why."""

    verdict: Verdict
    reason: str


class _TooDeep(Exception):
    pass


def match_actions(reference: Any, prediction: Any, rules: MatchRules | None = None) -> ActionMatch:
    """Compare the values of `reference_answer.json` and `final_agent_response.json`; None stands for a file that is not there."""
    rules = rules or MatchRules()
    if reference is None:
        return ActionMatch("N/A", "the scenario has no reference answer")
    if prediction is None:
        return ActionMatch(False, "the agent gave no answer")
    wanted, given = _items(reference), _items(prediction)
    if wanted is None or not all(isinstance(item, Mapping) for item in wanted):
        return ActionMatch(False, "the reference answer is malformed: neither an object nor a list of objects")
    if given is not None and len(wanted) == 1:
        given = given[-1:]
    if given is None or (given and not any(isinstance(item, Mapping) for item in given)):
        return ActionMatch(False, "the agent's answer is malformed: neither an object nor a list of objects")
    try:
        table = [[_object_matches(item, other, rules, 0, top=True) for other in given] for item in wanted]
    except _TooDeep:
        return ActionMatch(False, f"malformed: nested deeper than {MAX_DEPTH} levels")
    missing = _first_unmatched(table)
    if missing is not None:
        return ActionMatch(False, f"reference item {missing + 1} of {len(wanted)} has no matching item of its own in the answer")
    if rules.strict and len(given) > len(wanted):
        return ActionMatch(False, f"strict: {len(given)} items where the reference has {len(wanted)}")
    return ActionMatch(True, "every reference item is matched")


def _items(value: Any) -> list[Any] | None:
    if isinstance(value, Mapping):
        return [value]
    return list(value) if isinstance(value, list | tuple) else None


def _object_matches(reference: Mapping[str, Any], prediction: Any, rules: MatchRules, depth: int, *, top: bool = False) -> bool:
    if not isinstance(prediction, Mapping):
        return False
    return all(
        key in prediction
        and _matches(value, prediction[key], rules, depth + 1, exact_length=top and rules.strict and key == "actions")
        for key, value in reference.items()
    )


def _matches(reference: Any, prediction: Any, rules: MatchRules, depth: int, *, exact_length: bool = False) -> bool:
    if depth > MAX_DEPTH:
        raise _TooDeep
    if isinstance(reference, Mapping):
        return _object_matches(reference, prediction, rules, depth)
    if isinstance(reference, list | tuple):
        if not isinstance(prediction, list | tuple) or len(prediction) < len(reference):
            return False
        if exact_length and len(prediction) > len(reference):
            return False
        table = [[_matches(item, other, rules, depth + 1) for other in prediction] for item in reference]
        return _first_unmatched(table) is None
    if reference is None or isinstance(reference, bool):
        return prediction is reference
    return _scalar_matches(reference, prediction, rules)


def _scalar_matches(reference: Any, prediction: Any, rules: MatchRules) -> bool:
    if isinstance(prediction, bool) or not isinstance(prediction, int | float | str):
        return False
    wanted, given = _as_number(reference, rules), _as_number(prediction, rules)
    if wanted is not None and given is not None:
        return _numbers_match(wanted, given)
    if isinstance(reference, str) and isinstance(prediction, str):
        return _folded(reference, rules) == _folded(prediction, rules)
    # Numbers with no numeric reading (infinities, endless digit strings) equal only what is spelt alike.
    return type(reference) is type(prediction) and repr(reference) == repr(prediction)


def _as_number(value: Any, rules: MatchRules) -> int | float | None:
    """An int where the value is integral, a float where it has a fractional part, None where it is text (`"007"`, `"1e5"`)."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value if math.isfinite(value) else None
    if not isinstance(value, str):
        return int(value)
    text = value.strip() if rules.clean_text else value
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    digits, _, fraction = text.partition(".")
    if not fraction.strip("0"):
        return int(digits)
    number = float(text)
    return number if math.isfinite(number) else None


def _numbers_match(wanted: int | float, given: int | float) -> bool:
    if isinstance(wanted, int) and isinstance(given, int):
        return wanted == given
    try:
        return math.isclose(wanted, given, rel_tol=_RELATIVE_TOLERANCE)
    except OverflowError:
        return False


def _folded(text: str, rules: MatchRules) -> str:
    if rules.ignore_capitalization:
        text = text.lower()
    if rules.ignore_punctuation:
        text = _PUNCTUATION.sub("", text)
    return " ".join(text.split()) if rules.clean_text else text


def _first_unmatched(table: Sequence[Sequence[bool]]) -> int | None:
    """Give every row a column of its own where the table is true; the index of the first row that finds none, else None."""
    row_of: dict[int, int] = {}
    column_of: dict[int, int] = {}
    for start in range(len(table)):
        reached_from: dict[int, int] = {}
        rows = deque([start])
        free: int | None = None
        while rows and free is None:
            row = rows.popleft()
            for column, fits in enumerate(table[row]):
                if not fits or column in reached_from:
                    continue
                reached_from[column] = row
                if column not in row_of:
                    free = column
                    break
                rows.append(row_of[column])
        if free is None:
            return start
        step: int | None = free
        while step is not None:
            row = reached_from[step]
            before = column_of.get(row)
            row_of[step], column_of[row] = row, step
            step = before
    return None
