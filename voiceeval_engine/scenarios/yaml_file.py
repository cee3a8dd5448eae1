"""YAML that people write, read safely, with the line of every value at hand for a message that helps.

May import the standard library, yaml and pydantic only. Rule: scenarios page, "YAML packs".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Model = TypeVar("Model", bound=BaseModel)


class PackProblem(Exception):
    """Something in a pack cannot be used. `line` counts from 1, None where it is not known; `str()` is the sentence to show."""

    def __init__(self, file: Path, line: int | None, text: str) -> None:
        super().__init__(f"{file}:{line}: {text}" if line else f"{file}: {text}")
        self.file = file
        self.line = line
        self.text = text


@dataclass(frozen=True)
class Entry:
    """One mapping of a YAML file with its place in it."""

    file: Path
    data: Any
    node: Any

    def problem(self, text: str, *path: str | int) -> PackProblem:
        """A problem with the value at `path` inside this entry."""
        return PackProblem(self.file, _line(self.node, path), text)

    def check(self, model: type[Model], who: str) -> Model:
        """The entry as `model`; raises PackProblem that names `who`, the first wrong value and its line."""
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            text = f"{who}: {place}: {first['msg']}" if place else f"{who}: {first['msg']}"
            raise self.problem(text, *first["loc"]) from error


def read(file: Path) -> Entry:
    """Read one file; raises PackProblem where it cannot be read or is no YAML."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PackProblem(file, None, f"cannot be read: {error}") from error
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            data = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise PackProblem(file, line, f"is not usable YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise PackProblem(file, None, f"is not usable YAML: {error}") from error
    return Entry(file, data, node)


def entries(whole: Entry) -> Iterator[Entry]:
    """The file's items where it is a list, else the file itself."""
    if isinstance(whole.data, list):
        for item, node in zip(whole.data, whole.node.value, strict=True):
            yield Entry(whole.file, item, node)
    else:
        yield whole


def _line(node: Any, path: Sequence[str | int]) -> int | None:
    """The line of the value at `path`, as deep as it leads; keys that are no keys (a union's branches) are passed over."""
    if node is None:
        return None
    for key in path:
        if isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if name.value == str(key)), node)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
    return int(node.start_mark.line) + 1
