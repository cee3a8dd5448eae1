"""How to start a run: every option with its default, meaning and check. The command line and the console's forms fill it in.

Names, defaults and meaning are the reference's where it has the option. May import the standard library and lower floors. Rule:
running page, "Commands".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from voiceeval_engine.bridge.ending import Policy
from voiceeval_engine.session.run_args import REDACTED

if TYPE_CHECKING:
    from pydantic import TypeAdapter

DEFAULT_AGENT_URL = "ws://localhost:8765"
DEFAULT_USER_URL = "ws://localhost:8766"
DEFAULT_JUDGE_URL = "http://localhost:8000/v1/chat/completions"
DEFAULT_JUDGE_MODEL = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"
DEMO_DEFAULTS: dict[str, Any] = {
    "conversation_end_policy": "valid-terminal-state",
    "inactivity_timeout": 8.0,
    "auto_retry_backoff_secs": 1.0,
}
"""What `--demo` implies unless it is given."""
_POSITIVE = (
    "audio_chunk_in_seconds", "output_sample_rate", "inactivity_timeout", "duration", "judge_timeout", "judge_max_tokens",
    "judge_context_message_limit", "judge_context_system_string_limit", "judge_context_string_limit", "judge_concurrency",
    "judge_thinking_token_budget",
)  # fmt: skip
_NOT_NEGATIVE = (
    "pause", "min_agent_turns", "max_auto_retries", "auto_retry_backoff_secs", "backend_wait", "judge_temperature", "judge_seed",
)  # fmt: skip


class OptionError(Exception):
    """An option's value cannot be used; the message names the option and the value."""


@dataclass(frozen=True)
class RunOptions:
    """One run's settings. Durations in s, rates in Hz; `duration` None means each scenario's own."""

    user_url: str = DEFAULT_USER_URL
    agent_url: str = DEFAULT_AGENT_URL
    demo: bool = False
    """On embedded bots and, where none is given, the embedded judge."""
    pair: tuple[tuple[str, str], ...] = ()
    """(agent URL, user URL) of each pair; empty means the one of `agent_url` and `user_url`."""
    pairs_from: Path | None = None
    """A file of pairs that come and go, in place of the others."""
    output_dir: Path = Path("eval_results")
    scenarios: tuple[str, ...] = ()
    domain: str | None = None
    scenario_dir: tuple[Path, ...] = ()
    source: Literal["packs", "nemo"] | None = None
    """Where scenarios come from: packs, an installed `nemo_voice_agent`, or (None) packs first and the package where it is installed."""
    scenarios_from: Path | None = None
    """The folder of an earlier session whose scenarios are run again; no other source is asked then."""
    audio_chunk_in_seconds: float = 0.016
    output_sample_rate: int = 16_000
    duration: float | None = None
    pause: float = 0.5
    inactivity_timeout: float = 120.0
    conversation_end_policy: Policy = "tool-only"
    min_agent_turns: int = 2
    strict_match: bool = False
    resume: str | None = None
    """The timestamp of the session to go on with."""
    auto_resume_on_stale: bool = True
    auto_resume_on_insufficient_turns: bool = False
    max_auto_retries: int = 1
    auto_retry_backoff_secs: float = 5.0
    backend_wait: float = 600.0
    """For how long no pair of bots may answer before the run ends, to be resumed."""
    judge_url: str = DEFAULT_JUDGE_URL
    judge_model: str = DEFAULT_JUDGE_MODEL
    """A judge is asked where both are not empty."""
    judge_api_key: str | None = field(default=None, repr=False)
    judge_api_key_name: str = "JUDGE_API_KEY"
    judge_threshold: float = 0.9
    judge_timeout: float = 120.0
    judge_max_tokens: int = 100_000
    judge_temperature: float = 1.0
    judge_top_p: float = 0.95
    judge_seed: int = 42
    judge_thinking_token_budget: int | None = None
    judge_include_conversation: bool = False
    judge_compact_context: bool = False
    judge_context_message_limit: int = 40
    judge_context_system_string_limit: int = 2500
    judge_context_string_limit: int = 6000
    judge_concurrency: int = 4

    def __post_init__(self) -> None:
        bots = [("--agent-url", self.agent_url), ("--user-url", self.user_url)]
        pairs = [("--pair", url) for pair in self.pair for url in pair]
        for name, url in (*bots, *pairs):
            check_url(name, url)
        if self.pairs_from is not None and (self.pair or self.demo or self._bots != (DEFAULT_AGENT_URL, DEFAULT_USER_URL)):
            raise OptionError("--pairs-from names all pairs: leave out --pair, --agent-url, --user-url and --demo")
        places: set[tuple[str, ...]] = set()
        for name, url in pairs or bots:
            if place(url) in places:
                raise OptionError(f"{name}: {url} is given twice; a bot talks to one client at a time")
            places.add(place(url))
        for name in _POSITIVE:
            self._check(name, lambda value: math.isfinite(value) and value > 0, "a finite number above 0")
        for name in _NOT_NEGATIVE:
            self._check(name, lambda value: math.isfinite(value) and value >= 0, "a finite number of at least 0")
        for name in ("judge_threshold", "judge_top_p"):
            self._check(name, lambda value: 0 <= value <= 1, "a number from 0 to 1")
        if self.judge_url and not self.judge_url.startswith(("http://", "https://")):
            raise OptionError(f"--judge-url {self.judge_url!r}: not a URL such as {DEFAULT_JUDGE_URL}")
        if self.scenarios_from is not None and (self.scenario_dir or self.source is not None):
            raise OptionError("--scenarios-from takes the scenarios of a session alone: leave out --scenario-dir and --source")
        if not 4_000 <= self.output_sample_rate <= 192_000:
            raise OptionError(f"--output-sample-rate {self.output_sample_rate}: must be 4000 to 192000 Hz")
        if not 0.005 <= self.audio_chunk_in_seconds <= 1.0:
            raise OptionError(f"--audio-chunk-in-seconds {self.audio_chunk_in_seconds:g}: must be 0.005 to 1 s")

    def _check(self, name: str, holds: Callable[[float], bool], what: str) -> None:
        value = getattr(self, name)
        if value is not None and not holds(value):
            raise OptionError(f"{_flag(name)} {value}: must be {what}")

    @property
    def judged(self) -> bool:
        """Whether there is a judge."""
        return bool(self.judge_url and self.judge_model)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(agent URL, user URL) of every pair that the options name: none where a file does."""
        return self.pair or (() if self.pairs_from is not None else (self._bots,))

    @property
    def _bots(self) -> tuple[str, str]:
        return self.agent_url, self.user_url

    def parsed_args(self) -> Mapping[str, Any]:
        """Every option by its name, for `run_args.json`; paths are absolute, so that the record holds from anywhere."""
        record = asdict(self)
        record["output_dir"] = str(self.output_dir.resolve())
        record["pairs_from"] = None if self.pairs_from is None else str(self.pairs_from.resolve())
        record["scenario_dir"] = [str(folder.resolve()) for folder in self.scenario_dir]
        record["scenarios_from"] = None if self.scenarios_from is None else str(self.scenarios_from.absolute())
        record["scenarios"] = list(self.scenarios) or None
        record["pair"] = [list(pair) for pair in self.pair]
        record |= {"list": False, "list_domains": False}  # the reference records them; a run never has them
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunOptions:
        """The options of a record in `run_args.json`; what it does not have takes its default. Raises OptionError.

        A key that was left out of the record is not in it: it comes from the environment again.
        """
        from pydantic import ValidationError

        values = {name: value for name, value in record.items() if name in cls.__dataclass_fields__}
        if values.get("judge_api_key") == REDACTED:
            values["judge_api_key"] = None
        for name in ("scenarios", "pair", "scenario_dir"):
            values[name] = values.get(name) or ()
        try:
            return _adapter().validate_python(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise OptionError(f"{_flag(str(first['loc'][0]))} {str(first['input'])[:100]!r}: {first['msg']}") from error

    def to_argv(self) -> list[str]:
        """A command line, after the program's name, that gives these options; the judge's key is never on it."""
        words: list[str] = []
        for each in fields(self):
            value, flag = getattr(self, each.name), _flag(each.name)
            if each.name == "judge_api_key" or value == each.default or value is None:
                continue
            if each.name == "scenarios":
                words += [flag, *value]
            elif isinstance(value, tuple):
                words += [word for item in value for word in (flag, ",".join(item) if isinstance(item, tuple) else str(item))]
            elif isinstance(value, bool):
                words.append(flag if value else "--no-" + flag.removeprefix("--"))
            else:
                words += [flag, str(value)]
        return words


@cache
def _adapter() -> TypeAdapter[RunOptions]:
    """Made once: that takes 50 ms, and a form asks at every key."""
    from pydantic import TypeAdapter

    return TypeAdapter(RunOptions)


def check_url(option: str, url: str) -> None:
    """Raise OptionError unless `url` is a WebSocket URL with a host and a possible port."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("ws", "wss") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        good = good and "#" not in url
    except ValueError:
        good = False
    if not good or not url.isprintable() or " " in url:
        raise OptionError(f"{option} {url!r}: not a WebSocket URL such as ws://localhost:8765")


def place(url: str) -> tuple[str, ...]:
    """What two spellings of one WebSocket URL have in common."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    return parts.scheme, parts.hostname or "", str(port), parts.path or "/", parts.query


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
