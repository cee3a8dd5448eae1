"""Scenario packs: a folder with `domain.yaml` (defaults for all) and YAML files that hold one scenario or a list of them.

Every YAML file directly in the folder holds scenarios; databases are JSON, or in a folder inside the pack.
Opening a pack reads and checks its files, nothing more; a scenario is built when it is loaded. What is wrong is reported with file
and line, and the rest of the pack loads. May import domains, its own folder, pydantic and yaml. Rule: scenarios page, "YAML packs".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field

from voiceeval_engine.domains.registry import Db, Domain, DomainError, load_domain
from voiceeval_engine.domains.state import db_hash
from voiceeval_engine.scenarios import yaml_file
from voiceeval_engine.scenarios.gold import ReplayFailed, replay
from voiceeval_engine.scenarios.model import JsonDict, NoiseConfig, Scenario, ScenarioError, Side, Signal, check_name
from voiceeval_engine.scenarios.script import Script, ScriptManners, Step, render_prompt
from voiceeval_engine.scenarios.yaml_file import Entry, PackProblem

DOMAIN_FILE = "domain.yaml"
END_TOOL = "EndConversation"


class _Checked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DomainFile(_Checked):
    """`domain.yaml`. Databases are paths (YAML or JSON) inside the pack; `module` holds the tools of a domain that is not ours."""

    domain: str = Field(min_length=1)
    module: str | None = None
    agent_prompt: str = Field(min_length=1)
    user_prompt: str = Field(min_length=1)
    agent_tools: dict[str, JsonDict] = Field(default_factory=dict)
    user_tools: dict[str, JsonDict] = Field(default_factory=dict)
    agent_db: str | None = None
    user_db: str | None = None
    success_signals: tuple[Signal, ...] = Field(min_length=1)
    max_duration: float = Field(default=120.0, gt=0, allow_inf_nan=False)


class SideSpec(_Checked):
    """One side of a scenario: what its prompt adds to the domain's, and the script for the embedded bots."""

    instructions: str = ""
    steps: tuple[Step, ...] = ()
    manners: ScriptManners = ScriptManners()


class Action(_Checked):
    """One reference action."""

    side: Side = "agent"
    name: str = Field(min_length=1)
    arguments: JsonDict = Field(default_factory=dict)


class Initialization(_Checked):
    """One initialization action."""

    side: Side = "agent"
    func_name: str = Field(min_length=1)
    arguments: JsonDict = Field(default_factory=dict)


class Assertion(_Checked):
    """One predicate over a side's final database."""

    side: Side = "agent"
    func_name: str = Field(min_length=1)
    arguments: JsonDict = Field(default_factory=dict)
    assert_value: Any
    message: str | None = None


class Noise(_Checked):
    """`noise`; files are paths inside the pack."""

    noise_files: tuple[str, ...] = ()
    gain_db: float = Field(default=0.0, allow_inf_nan=False)
    max_noise_duration: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    random_offset: bool = True
    random_white_noise: bool = False
    white_noise_db: float = Field(default=-90.0, le=0, allow_inf_nan=False)


class ScenarioFile(_Checked):
    """One scenario. With `reference_actions` (an empty list too) the expected databases come from a replay.

    They are the reference answer as well, unless there are none or `reference_answer` is given.
    """

    name: str
    description: str = Field(min_length=1)
    agent: SideSpec = SideSpec()
    user: SideSpec = SideSpec()
    success_signals: tuple[Signal, ...] | None = Field(default=None, min_length=1)
    max_duration: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    agent_db: str | None = None
    user_db: str | None = None
    initialization_actions: tuple[Initialization, ...] = ()
    reference_actions: tuple[Action, ...] | None = None
    reference_answer: Any = None
    ignore_capitalization: bool = False
    ignore_punctuation: bool = False
    clean_text: bool = False
    disallow_extra_items: bool = False
    nl_assertions: tuple[str, ...] = ()
    db_state_assertions: tuple[Assertion, ...] = ()
    noise: Noise | None = None


class Pack:
    """One pack. `names` are its usable scenarios, sorted; `errors` says what could not be used, one problem each."""

    def __init__(self, folder: Path, embedded: bool = False) -> None:
        self.folder = folder
        self.embedded = embedded
        self._specs: dict[str, tuple[ScenarioFile, Entry]] = {}
        self._errors: list[PackProblem] = []
        self._names: tuple[str, ...] = ()
        self._defaults: DomainFile | None = None
        try:
            self._defaults = yaml_file.read(folder / DOMAIN_FILE).check(DomainFile, "the pack's defaults")
            files = sorted(file for file in folder.iterdir() if file.suffix in (".yaml", ".yml") and file.name != DOMAIN_FILE)
        except PackProblem as problem:
            self._errors.append(problem)
            return
        for file in files:
            self._read(file)
        self._names = tuple(sorted(self._specs))

    @property
    def names(self) -> tuple[str, ...]:
        """The scenarios that can be loaded."""
        return self._names

    @property
    def errors(self) -> tuple[PackProblem, ...]:
        """What was found wrong when the pack was opened."""
        return tuple(self._errors)

    def domain_of(self, name: str) -> str:
        """The tool registry's namespace of a scenario."""
        self._find(name)
        return self._common.domain

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
            raise ScenarioError(f"the pack {self.folder} cannot be used: {self._errors[0]}")
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
            self._errors.append(problem)
            return
        for entry in yaml_file.entries(whole):
            try:
                self._add(entry)
            except PackProblem as problem:
                self._errors.append(problem)

    def _add(self, entry: Entry) -> None:
        if not isinstance(entry.data, dict):
            raise entry.problem("a scenario must be a mapping")
        spec = entry.check(ScenarioFile, f"scenario {entry.data.get('name', 'without a name')}")
        try:
            check_name(spec.name)
        except ScenarioError as error:
            raise entry.problem(str(error), "name") from error
        if spec.name in self._specs:
            raise entry.problem(f"scenario {spec.name} is there already, in {self._specs[spec.name][1].file.name}", "name")
        self._specs[spec.name] = (spec, entry)

    def _build(self, spec: ScenarioFile, entry: Entry) -> Scenario:
        common = self._common
        module = self._module()
        domain = self._domain(module)
        self._check_tools(domain, spec, entry)
        agent_db = self._database(spec.agent_db or common.agent_db, entry)
        user_db = self._database(spec.user_db or common.user_db, entry)
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
        file = self.folder / f"{name}.py"
        return str(file.resolve()) if name is not None and name.isidentifier() and file.is_file() else name

    def _domain(self, module: str | None) -> Domain:
        """The domain's functions. A pack that offers no tools but the one that ends the conversation needs no module."""
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
                    raise PackProblem(self.folder / DOMAIN_FILE, None, f"{side}_tools: domain {domain.name} has no {name!r}")
            for index, step in enumerate(part.steps):
                for call in step.tools:
                    if call.name not in offered:
                        text = f"{spec.name}: the {side}'s script calls {call.name!r}, which is not in {side}_tools"
                        raise entry.problem(text, side, "steps", index, "tools")

    def _database(self, path: str | None, entry: Entry) -> JsonDict | None:
        if path is None:
            return None
        data = yaml_file.read(self._inside(path, entry)).data
        if not isinstance(data, dict):
            raise PackProblem(self.folder / path, None, "a database must be a mapping")
        try:
            return cast("JsonDict", json.loads(json.dumps(data, allow_nan=False)))
        except (TypeError, ValueError) as error:
            raise PackProblem(self.folder / path, None, f"a database must hold what JSON can: {error}") from error

    def _noise(self, noise: Noise | None, entry: Entry) -> NoiseConfig | None:
        if noise is None:
            return None
        values = noise.model_dump()
        values["noise_files"] = tuple(str(self._inside(path, entry)) for path in noise.noise_files)
        return NoiseConfig(**values)

    def _inside(self, path: str, entry: Entry) -> Path:
        file = (self.folder / path).resolve()
        if not file.is_relative_to(self.folder.resolve()):
            raise entry.problem(f"{path!r} leads out of the pack")
        return file


def _prompt(common: str, side: SideSpec, name: str) -> str:
    text = f"{common.strip()}\n\n{side.instructions.strip()}"
    if not side.steps:
        return render_prompt(text, None)
    manners = {"manners": side.manners} if "manners" in side.model_fields_set else {}
    return render_prompt(text, Script(name=name, steps=side.steps, **manners))


def _hash(db: Db | None) -> str | None:
    return None if db is None else db_hash(db)
