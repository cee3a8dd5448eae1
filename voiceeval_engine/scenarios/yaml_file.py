"""YAML that people write, read safely, with the line of every value at hand for a message that helps.

May import the standard library, yaml, pydantic and `garbage` only. Rule: scenarios page, "YAML packs".
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from voiceeval_engine.garbage import uncollected

_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc]
    """Dates stay texts, which is what JSON has for them."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class has it
        first: [(tag, pattern) for tag, pattern in each if tag != "tag:yaml.org,2002:timestamp"]
        for first, each in _Safe.yaml_implicit_resolvers.items()
    }


_NO_FIELD = "there is no such field"
_WORDS = {
    "missing": "is missing",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "dataclass_type": "must be a mapping",
    "string_type": "must be a text; put it in quotes",
    "extra_forbidden": _NO_FIELD,
    "unexpected_keyword_argument": _NO_FIELD,
}
"""What pydantic says in the words of Python, by the error's type."""
_HINTS = {"mapping values are not allowed": "; a text with a colon needs quotes, or the indent is not right"}
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
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            told = _told(first, model)
            raise self.problem(f"{who}: {place}: {told}" if place else f"{who} {told}", *first["loc"]) from error


@uncollected()
def read(file: Path) -> Entry:
    """Read one file; raises PackProblem where it cannot be read or is no YAML."""
    try:
        raw = file.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise PackProblem(file, None, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PackProblem(file, raw[: error.start].count(b"\n") + 1, "is not UTF-8") from error
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if twice := _given_twice(node):
                raise PackProblem(file, twice.start_mark.line + 1, f"{twice.value!r} is there twice")
            data = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark, why = error.problem_mark, str(error.problem)
        if mark is not None and text[mark.index : mark.index + 1] == "\t":
            why = "a tab; indent with spaces"
        why += next((hint for words, hint in _HINTS.items() if why.startswith(words)), "")
        raise PackProblem(file, mark.line + 1 if mark else None, f"is not usable YAML: {why.removeprefix('but ')}") from error
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


def _told(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    """What is wrong with a value, in the words of who writes YAML."""
    kind, given = error["type"], error["input"]
    told = _WORDS.get(kind) or str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    if told == _NO_FIELD:
        near = difflib.get_close_matches(str(error["loc"][-1]), _field_names(model), n=1)
        return f"{told}; did you mean {near[0]}?" if near else told
    shown = kind not in ("missing", "value_error") and (given is None or isinstance(given, str | int | float))
    return f"{told}; it is {given!r:.60}" if shown else told


def _field_names(model: type[BaseModel]) -> set[str]:
    """Of the model and of all that stands in it."""
    schema = model.model_json_schema()
    return {name for part in (schema, *schema.get("$defs", {}).values()) for name in part.get("properties", ())}


def _given_twice(root: Any) -> Any:
    """The first key that its mapping has already; None where there is none."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        keys = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in keys:
                    return key
                keys.add((key.tag, key.value))
            waiting.append(value)
    return None


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
