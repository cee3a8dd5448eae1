"""All scenarios there are, over several sources; the first source that has a name provides it.

Listing builds nothing. May import its own folder and the standard library. Rule: scenarios page.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from voiceeval_engine.scenarios.model import Scenario, ScenarioError, name_prefix
from voiceeval_engine.scenarios.packs import DOMAIN_FILE, Pack

EMBEDDED_FOLDER = Path(__file__).parent / "packs"


class Source(Protocol):
    """Where scenarios come from."""

    @property
    def embedded(self) -> bool:
        """Whether its scenarios are shipped with us, for the demo."""

    @property
    def names(self) -> Sequence[str]:
        """Its scenarios."""

    @property
    def errors(self) -> Sequence[Exception]:
        """What it could not use; `str()` of each is a sentence."""

    def load(self, name: str) -> Scenario:
        """Build one scenario; raises ScenarioError."""

    def domain_of(self, name: str) -> str:
        """A scenario's domain."""


class Catalog:
    """The scenarios of some sources by name."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)
        self._by_name: dict[str, Source] = {}
        for source in self._sources:
            for name in source.names:
                self._by_name.setdefault(name, source)

    @classmethod
    def of_packs(cls, folders: Iterable[Path] = ()) -> Catalog:
        """The packs in `folders` (each a pack itself, or a folder of packs), then the embedded ones."""
        return cls([*(pack for folder in folders for pack in open_packs(folder)), *open_packs(EMBEDDED_FOLDER, embedded=True)])

    @property
    def errors(self) -> list[Exception]:
        """What any source could not use."""
        return [error for source in self._sources for error in source.errors]

    def names(self, prefix: str | None = None, *, include_embedded: bool = True) -> list[str]:
        """All names, sorted; with `prefix` those that start with `<prefix>__`."""
        return sorted(
            name
            for name, source in self._by_name.items()
            if (include_embedded or not source.embedded) and (prefix is None or name.startswith(f"{prefix}__"))
        )

    def domains(self, *, include_embedded: bool = True) -> dict[str, int]:
        """How many scenarios each name prefix has, sorted by prefix; names without a prefix are left out."""
        counts: dict[str, int] = {}
        for name in self.names(include_embedded=include_embedded):
            if "__" in name:
                counts[name_prefix(name)] = counts.get(name_prefix(name), 0) + 1
        return dict(sorted(counts.items()))

    def is_embedded(self, name: str) -> bool:
        """Whether a scenario is shipped with us; raises ScenarioError for a name that is not there."""
        return self._source(name).embedded

    def domain_of(self, name: str) -> str:
        """A scenario's domain; raises ScenarioError for a name that is not there."""
        return self._source(name).domain_of(name)

    def get(self, name: str) -> Scenario:
        """Build a scenario; raises ScenarioError, naming near matches where there is none of that name."""
        return self._source(name).load(name)

    def _source(self, name: str) -> Source:
        source = self._by_name.get(name)
        if source is None:
            near = difflib.get_close_matches(name, self._by_name, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else "; --list shows what there is"
            raise ScenarioError(f"there is no scenario {name!r}{hint}")
        return source


def open_packs(folder: Path, *, embedded: bool = False) -> list[Pack]:
    """The pack that `folder` is, or those directly in it; raises ScenarioError where there is neither."""
    if (folder / DOMAIN_FILE).is_file():
        return [Pack(folder, embedded)]
    found = sorted(file.parent for file in folder.glob(f"*/{DOMAIN_FILE}"))
    if not found:
        raise ScenarioError(f"{folder} is no scenario pack: there is no {DOMAIN_FILE} in it or in a folder of it")
    return [Pack(each, embedded) for each in found]
