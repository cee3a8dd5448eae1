"""All scenarios there are, over several sources; the first source that has a name provides it.

Listing builds nothing. May import its own folder, `garbage` and the standard library. Rule: scenarios page.
"""

from __future__ import annotations

import difflib
import gc
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from voiceeval_engine.garbage import uncollected
from voiceeval_engine.scenarios.model import Scenario, ScenarioError, name_prefix
from voiceeval_engine.scenarios.nemo import PACKAGE, NemoSource, is_installed
from voiceeval_engine.scenarios.packs import DOMAIN_FILE, Pack
from voiceeval_engine.scenarios.saved import SavedSource

SourceName = Literal["packs", "nemo"]
EMBEDDED_FOLDER = Path(__file__).parent / "packs"


class Source(Protocol):
    """Where scenarios come from."""

    @property
    def embedded(self) -> bool:
        """Whether its scenarios are shipped with us, for the demo."""

    @property
    def names(self) -> Collection[str]:
        """Its scenarios. The first call may take seconds."""

    @property
    def errors(self) -> Sequence[Exception]:
        """What it could not use, as far as it has looked; `str()` of each is a sentence."""

    def load(self, name: str) -> Scenario:
        """Build one scenario; raises ScenarioError."""

    def close(self) -> None:
        """Let go what it has started; from any thread."""


class Catalog:
    """The scenarios of some sources by name. A source is asked only for what those before it do not have."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)

    @classmethod
    def open(cls, folders: Iterable[Path] = (), source: SourceName | None = None, session: Path | None = None) -> Catalog:
        """Packs and an installed package, as `source` says; by itself the package is a source where it is installed. With `session`
        what that session holds, and nothing else.

        Nothing of the package is listed yet. Raises ScenarioError, naming the option at fault. With "nemo" the packs in `folders` are
        not opened.
        """
        if session is not None:
            try:
                return cls([SavedSource(session)])
            except ScenarioError as error:
                raise ScenarioError(f"--scenarios-from: {error}") from error
        installed = source != "packs" and is_installed()
        if source == "nemo" and not installed:
            raise ScenarioError(f"--source nemo: there is no {PACKAGE} in the environment of {sys.executable}")
        try:
            packs = cls.of_packs(folders if source != "nemo" else ())
        except ScenarioError as error:
            raise ScenarioError(f"--scenario-dir: {error}") from error
        if not installed:
            return packs
        return cls([*packs._sources, NemoSource()])

    @classmethod
    @uncollected()
    def of_packs(cls, folders: Iterable[Path] = ()) -> Catalog:
        """The packs in `folders` (each a pack itself, or a folder of packs), then the embedded ones."""
        packs = [*(pack for folder in folders for pack in open_packs(folder)), *open_packs(EMBEDDED_FOLDER, embedded=True)]
        gc.freeze()  # they stay: to walk one of 10,000 scenarios takes most of a second, in which a run would send no audio
        return cls(packs)

    @property
    def errors(self) -> list[Exception]:
        """What any source could not use."""
        return [error for source in self._sources for error in source.errors]

    def names(self, prefix: str | None = None, *, include_embedded: bool = True) -> list[str]:
        """All names, sorted; with `prefix` those that start with `<prefix>__`."""
        return sorted(
            name
            for name, source in self._by_name().items()
            if (include_embedded or not source.embedded) and (prefix is None or name.startswith(f"{prefix}__"))
        )

    def embedded_names(self) -> list[str]:
        """Those that are shipped with us, sorted; no other source is asked."""
        embedded = {name for source in self._sources if source.embedded for name in source.names}
        return sorted(name for name in embedded if self.is_embedded(name))

    def domains(self) -> dict[str, int]:
        """How many scenarios each name prefix has, sorted by prefix; names without a prefix are left out."""
        counts: dict[str, int] = {}
        for name in self.names():
            if "__" in name:
                counts[name_prefix(name)] = counts.get(name_prefix(name), 0) + 1
        return dict(sorted(counts.items()))

    def is_embedded(self, name: str) -> bool:
        """Whether a scenario is shipped with us; raises ScenarioError for a name that is not there."""
        return self._source(name).embedded

    def get(self, name: str) -> Scenario:
        """Build a scenario; raises ScenarioError, naming near matches where there is none of that name."""
        return self._source(name).load(name)

    def close(self) -> None:
        """Let go what the sources have started; from any thread."""
        for source in self._sources:
            source.close()

    def _by_name(self) -> dict[str, Source]:
        return {name: source for source in reversed(self._sources) for name in source.names}

    def _source(self, name: str) -> Source:
        source = next((source for source in self._sources if name in source.names), None)
        if source is None:
            near = difflib.get_close_matches(name, self._by_name(), n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else "; --list shows what there is"
            failed = [f"; {error}" for each in self._sources if not each.names for error in each.errors]
            raise ScenarioError(f"there is no scenario {name!r}{hint}{''.join(failed)}")
        return source


def open_packs(folder: Path, *, embedded: bool = False) -> list[Pack]:
    """The pack that `folder` is, or those directly in it; raises ScenarioError where there is neither."""
    if (folder / DOMAIN_FILE).is_file():
        return [Pack(folder, embedded)]
    found = sorted(file.parent for file in folder.glob(f"*/{DOMAIN_FILE}"))
    if not found:
        raise ScenarioError(f"{folder} is no scenario pack: there is no {DOMAIN_FILE} in it or in a folder of it")
    return [Pack(each, embedded) for each in found]
