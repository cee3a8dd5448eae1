"""Scenario packs: a folder with `domain.yaml` (defaults for all) and YAML files that hold one scenario or a list of them.

Every YAML file directly in the folder holds scenarios; databases are JSON, or in a folder inside the pack.
Opening a pack reads and checks its files, nothing more; a scenario is built when it is loaded. What is wrong is reported with file
and line, and the rest of the pack loads. May import domains and its own folder. Rule: scenarios page, "YAML packs".
"""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import cast

from voiceeval_engine.domains.registry import Db, Domain, DomainError, load_domain
from voiceeval_engine.domains.state import db_hash
from voiceeval_engine.scenarios import yaml_file
from voiceeval_engine.scenarios.gold import ReplayFailed, replay
from voiceeval_engine.scenarios.model import JsonDict, NoiseConfig, Scenario, ScenarioError, Side, check_name
from voiceeval_engine.scenarios.pack_format import DomainFile, Noise, ScenarioFile, SideSpec
from voiceeval_engine.scenarios.script import END_TOOL, Script, render_prompt
from voiceeval_engine.scenarios.yaml_file import Entry, PackProblem

DOMAIN_FILE = "domain.yaml"


class Pack:
    """One pack. `names` are its usable scenarios, sorted; `errors` says what could not be used, one problem each."""

    def __init__(self, folder: Path, embedded: bool = False) -> None:
        self.folder = folder
        self.embedded = embedded
        self._specs: dict[str, tuple[ScenarioFile, Entry]] = {}
        self.errors: list[PackProblem] = []
        self.names: Collection[str] = ()
        self._defaults: DomainFile | None = None
        self._defaults_entry = Entry(folder / DOMAIN_FILE, None, None)
        try:
            self._defaults_entry = yaml_file.read(folder / DOMAIN_FILE)
            self._defaults = self._defaults_entry.check(DomainFile, "the pack's defaults")
            files = sorted(file for file in folder.iterdir() if file.suffix in (".yaml", ".yml") and file.name != DOMAIN_FILE)
        except PackProblem as problem:
            self.errors.append(problem)
            return
        for file in files:
            self._read(file)
        if not self._specs and not self.errors:
            self.errors.append(PackProblem(folder, None, f"there is no scenario beside {DOMAIN_FILE}"))
        self._specs = dict(sorted(self._specs.items(), key=itemgetter(0)))
        self.names = self._specs.keys()

    def load(self, name: str) -> Scenario:
        """Build one scenario; raises ScenarioError, with file and line where they are known."""
        spec, entry = self._find(name)
        try:
            return self._build(spec, entry)
        except PackProblem as problem:
            raise ScenarioError(str(problem)) from problem
        except (DomainError, ReplayFailed) as error:
            raise ScenarioError(str(entry.problem(f"{name}: {error}"))) from error

    def close(self) -> None:
        """There is nothing to let go."""

    @property
    def _common(self) -> DomainFile:
        if self._defaults is None:
            raise ScenarioError(f"the pack {self.folder} cannot be used: {self.errors[0]}")
        return self._defaults

    def _find(self, name: str) -> tuple[ScenarioFile, Entry]:
        found = self._specs.get(name)
        if found is None:
            raise ScenarioError(f"the pack {self.folder} has no scenario {name!r}")
        return found

    def _read(self, file: Path) -> None:
        try:
            whole = yaml_file.read(file)
        except PackProblem as problem:
            self.errors.append(problem)
            return
        for entry in yaml_file.entries(whole):
            try:
                self._add(entry)
            except PackProblem as problem:
                self.errors.append(problem)

    def _add(self, entry: Entry) -> None:
        if not isinstance(entry.data, dict):
            raise entry.problem("there is no scenario in it" if entry.data is None else "a scenario must be a mapping")
        spec = entry.check(ScenarioFile, f"scenario {entry.data.get('name', 'without a name')}")
        try:
            check_name(spec.name)
        except ScenarioError as error:
            raise entry.problem(str(error), "name") from error
        if spec.name in self._specs:
            raise entry.problem(f"scenario {spec.name} is there already, in {self._specs[spec.name][1].file.name}", "name")
        self._specs[spec.name] = (spec, replace(entry, data=None))  # what it said is in `spec`

    def _build(self, spec: ScenarioFile, entry: Entry) -> Scenario:
        common = self._common
        module = self._module()
        domain = self._domain(module)
        self._check_tools(domain, spec, entry)
        agent_db = self._database(spec, entry, "agent_db")
        user_db = self._database(spec, entry, "user_db")
        _check_assertions(domain, spec, entry, {"agent": agent_db, "user": user_db})
        initialization = tuple(action.model_dump() for action in spec.initialization_actions)
        actions = [action.model_dump() for action in spec.reference_actions or ()]
        expected = replay(domain, {"agent": agent_db, "user": user_db}, initialization, actions)
        scored = spec.reference_actions is not None
        reference = spec.reference_answer
        if reference is None and actions:
            reference = {"actions": actions}
        return Scenario(
            name=spec.name,
            domain=common.domain,
            description=spec.description.strip(),
            max_duration=spec.max_duration or common.max_duration,
            user_prompt=_prompt(common.user_prompt, spec.user, spec.name),
            agent_prompt=_prompt(common.agent_prompt, spec.agent, spec.name),
            success_signals=spec.success_signals or common.success_signals,
            user_tools=common.user_tools,
            agent_tools=common.agent_tools,
            user_state={} if user_db is None else {"db": user_db},
            agent_state={} if agent_db is None else {"db": agent_db},
            initialization_actions=initialization,
            reference_answer=reference,
            ignore_capitalization=spec.ignore_capitalization,
            ignore_punctuation=spec.ignore_punctuation,
            clean_text=spec.clean_text,
            disallow_extra_items=spec.disallow_extra_items,
            nl_assertions=spec.nl_assertions,
            db_state_assertions=tuple(item.model_dump(exclude_none=True) for item in spec.db_state_assertions),
            expected_db_hash=_hash(expected["agent"]) if scored else None,
            expected_user_db_hash=_hash(expected["user"]) if scored else None,
            noise=self._noise(spec.noise, entry),
            sync=domain.sync_state is not None and agent_db is not None and user_db is not None,
            embedded=self.embedded,
            tool_module=module,
        )

    def _module(self) -> str | None:
        """The tool module as the registry takes it: a file of that name in the pack comes before an installed module."""
        name = self._common.module
        if name is not None and name.endswith(".py"):
            raise self._defaults_entry.problem(f"module: {name!r} is a file's name; give {name.removesuffix('.py')!r}", "module")
        file = self.folder / f"{name}.py"
        return str(file.resolve()) if name is not None and name.isidentifier() and file.is_file() else name

    def _domain(self, module: str | None) -> Domain:
        """The domain's functions. A pack that offers no tools but the one that ends the conversation needs no module."""
        try:
            return self._load_domain(module)
        except DomainError as error:
            raise self._defaults_entry.problem(str(error), "domain" if module is None else "module") from error

    def _load_domain(self, module: str | None) -> Domain:
        common = self._common
        if module is None and not {*common.agent_tools, *common.user_tools} - {END_TOOL}:
            try:
                return load_domain(common.domain)
            except DomainError:
                return Domain(common.domain, {})
        return load_domain(common.domain, module)

    def _check_tools(self, domain: Domain, spec: ScenarioFile, entry: Entry) -> None:
        sides: tuple[tuple[Side, SideSpec, dict[str, JsonDict]], ...] = (
            ("agent", spec.agent, self._common.agent_tools),
            ("user", spec.user, self._common.user_tools),
        )
        for side, part, offered in sides:
            for name in offered:
                if name != END_TOOL and name not in domain.tools(side):
                    text = f"{side}_tools: domain {domain.name} has no {name!r}{_among(name, domain.tools(side))}"
                    raise self._defaults_entry.problem(text, f"{side}_tools", name)
            for index, step in enumerate(part.steps):
                for call in step.tools:
                    if call.name not in offered:
                        text = f"{spec.name}: the {side}'s script calls {call.name!r}, which is not in {side}_tools"
                        raise entry.problem(text, side, "steps", index, "tools")

    def _database(self, spec: ScenarioFile, entry: Entry, field: str) -> JsonDict | None:
        own, common = getattr(spec, field), getattr(self._common, field)
        path = own or common
        if path is None:
            return None
        self._inside(path, entry if own else self._defaults_entry, field)
        data = yaml_file.read(self.folder / path).data
        if not isinstance(data, dict):
            raise PackProblem(self.folder / path, None, "a database must be a mapping")
        try:
            return cast("JsonDict", json.loads(json.dumps(data, allow_nan=False)))
        except (TypeError, ValueError) as error:
            raise PackProblem(self.folder / path, None, f"a database must hold what JSON can: {error}") from error

    def _noise(self, noise: Noise | None, entry: Entry) -> NoiseConfig | None:
        if noise is None:
            return None
        files = tuple(str(self._inside(path, entry, "noise")) for path in noise.noise_files)
        return NoiseConfig(**{**vars(noise), "noise_files": files})

    def _inside(self, path: str, entry: Entry, field: str) -> Path:
        file = (self.folder / path).resolve()
        if not file.is_relative_to(self.folder.resolve()):
            raise entry.problem(f"{field}: {path!r} leads out of the pack", field)
        return file


def _check_assertions(domain: Domain, spec: ScenarioFile, entry: Entry, databases: Mapping[Side, Db | None]) -> None:
    """A predicate that cannot be evaluated would count against every agent."""
    for index, each in enumerate(spec.db_state_assertions):
        why, predicate = "", domain.predicates.get(each.func_name)
        if predicate is None:
            why = f"domain {domain.name} has no predicate {each.func_name!r}{_among(each.func_name, domain.predicates)}"
        elif databases[each.side] is None:
            why = f"there is no database on the {each.side}'s side"
        else:
            try:
                inspect.signature(predicate).bind(databases[each.side], **each.arguments)
            except TypeError as error:
                why = f"{each.func_name}: {error}"
        if why:
            raise entry.problem(f"{spec.name}: {why}", "db_state_assertions", index)


def _among(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that says what a name that is not there was meant to be."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else f"; it has {', '.join(sorted(known)) or 'none'}"


def _prompt(common: str, side: SideSpec, name: str) -> str:
    text = f"{common.strip()}\n\n{side.instructions.strip()}"
    if not side.steps:
        return render_prompt(text, None)
    manners = {"manners": side.manners} if "manners" in side.model_fields_set else {}
    return render_prompt(text, Script(name=name, steps=side.steps, **manners))


def _hash(db: Db | None) -> str | None:
    return None if db is None else db_hash(db)
