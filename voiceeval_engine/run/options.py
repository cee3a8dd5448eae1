"""How to start a run: every option with its default, meaning and check. The command line and, later, a form fill it in.

Names, defaults and meaning are the reference's where it has the option. May import the standard library and lower floors. Rule:
running page, "Commands".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from voiceeval_engine.bridge.ending import Policy

DEFAULT_AGENT_URL = "ws://localhost:8765"
DEFAULT_USER_URL = "ws://localhost:8766"


class OptionError(Exception):
    """An option's value cannot be used; the message names the option and the value."""


@dataclass(frozen=True)
class RunOptions:
    """One run's settings. Durations in s, rates in Hz; `duration` None means each scenario's own."""

    user_url: str = DEFAULT_USER_URL
    agent_url: str = DEFAULT_AGENT_URL
    pair: tuple[tuple[str, str], ...] = ()
    """(agent URL, user URL) of each pair; empty means the one of `agent_url` and `user_url`."""
    output_dir: Path = Path("eval_results")
    scenarios: tuple[str, ...] = ()
    domain: str | None = None
    scenario_dir: tuple[Path, ...] = ()
    audio_chunk_in_seconds: float = 0.016
    output_sample_rate: int = 16_000
    duration: float | None = None
    pause: float = 0.5
    inactivity_timeout: float = 120.0
    conversation_end_policy: Policy = "tool-only"
    min_agent_turns: int = 2
    strict_match: bool = False
    auto_resume_on_stale: bool = True
    max_auto_retries: int = 1
    auto_retry_backoff_secs: float = 5.0

    def __post_init__(self) -> None:
        for name, url in (("--agent-url", self.agent_url), ("--user-url", self.user_url)):
            check_url(name, url)
        for agent_url, user_url in self.pair:
            check_url("--pair", agent_url)
            check_url("--pair", user_url)
        urls = [url for pair in self.pairs for url in pair]
        for url in urls:
            if urls.count(url) > 1:
                raise OptionError(f"--pair: {url} is given twice; a bot talks to one client at a time")
        _positive("--audio-chunk-in-seconds", self.audio_chunk_in_seconds)
        _positive("--output-sample-rate", self.output_sample_rate)
        _positive("--inactivity-timeout", self.inactivity_timeout)
        if self.duration is not None:
            _positive("--duration", self.duration)
        _not_negative("--pause", self.pause)
        _not_negative("--min-agent-turns", self.min_agent_turns)
        _not_negative("--max-auto-retries", self.max_auto_retries)
        _not_negative("--auto-retry-backoff-secs", self.auto_retry_backoff_secs)
        if not 4_000 <= self.output_sample_rate <= 192_000:
            raise OptionError(f"--output-sample-rate {self.output_sample_rate}: must be 4000 to 192000 Hz")
        if not 0.005 <= self.audio_chunk_in_seconds <= 1.0:
            raise OptionError(f"--audio-chunk-in-seconds {self.audio_chunk_in_seconds:g}: must be 0.005 to 1 s")

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(agent URL, user URL) of every pair of the run."""
        return self.pair or ((self.agent_url, self.user_url),)

    def parsed_args(self) -> Mapping[str, Any]:
        """Every option by its name, for `run_args.json`; paths are absolute, so that the record holds from anywhere."""
        fields = asdict(self)
        fields["output_dir"] = str(self.output_dir.resolve())
        fields["scenario_dir"] = [str(folder.resolve()) for folder in self.scenario_dir]
        fields["scenarios"] = list(self.scenarios) or None
        fields["pair"] = [list(pair) for pair in self.pair]
        return fields


def check_url(option: str, url: str) -> None:
    """Raise OptionError unless `url` is a WebSocket URL with a host and a possible port."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("ws", "wss") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or not url.isprintable() or " " in url:
        raise OptionError(f"{option} {url!r}: not a WebSocket URL such as ws://localhost:8765")


def _positive(option: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise OptionError(f"{option} {value}: must be a finite number above 0")


def _not_negative(option: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise OptionError(f"{option} {value}: must be a finite number of at least 0")
