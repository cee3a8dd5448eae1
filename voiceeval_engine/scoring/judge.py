"""The judge's HTTP side: any OpenAI-compatible endpoint, patient with its troubles, never in the way of a conversation.

Every failure ends in a failed verdict with a reason; nothing raises. The key goes into one header and into nothing else. May import
httpx, offload and this folder. Rule: scoring page, "Judge".
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from voiceeval_engine.offload import Offload
from voiceeval_engine.scoring.verdict import ERROR, Verdict, failed_verdict, no_verdict, read_reply
from voiceeval_engine.session.run_args import REDACTED

Log = logging.LoggerAdapter[logging.Logger]

TRIES = 4
BACKOFF = (1.0, 2.0, 4.0)
MAX_RETRY_AFTER = 60.0
FAILURES_BEFORE_ONE_TRY = 5
MAX_RESPONSE_BYTES = 16 * 2**20
PROBE_TIMEOUT = 5.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""A judge on this machine is never asked through the environment's proxy."""
MIN_SECRET_CHARS = 8
"""Shorter keys are stand-ins ("EMPTY", "ollama"): hiding them in a judge's own words would only garble those."""
TOO_LONG = ("context length", "context_length", "context size", "context_size", "context window", "prompt is too long")
TOO_LONG_REFUSED = (*TOO_LONG, "too long")
_JSON = {"Content-Type": "application/json"}
OPTIONAL_FIELDS = ("seed", "chat_template_kwargs", "temperature", "max_tokens", "top_p", "thinking_token_budget")


@dataclass(frozen=True)
class JudgeSettings:
    """One endpoint and how to ask it. `timeout` in s per try; `key` is sent as a bearer token, None sends no header."""

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 120.0
    max_tokens: int = 100_000
    temperature: float = 1.0
    top_p: float = 0.95
    seed: int = 42
    thinking_token_budget: int | None = None
    concurrency: int = 4


@dataclass(frozen=True)
class Trial:
    """What came of a single call: `trouble` is empty where it gave a verdict; `status` is that of its HTTP answer, None without one."""

    trouble: str
    status: int | None = None


class _Failed(Exception):
    """A try that failed; `status` where that is an HTTP status."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


class _TryAgain(_Failed):
    """A try that failed in a way that may pass; `after` is how long the endpoint asks to wait (s), None where it does not say."""

    def __init__(self, why: str, after: float | None = None, status: int | None = None) -> None:
        super().__init__(why, status)
        self.after = after


class _Final(_Failed):
    """A try that failed for good."""


class Judge:
    """Asks one endpoint. Use it inside `async with`; it remembers fields that the endpoint does not take, and its bad streaks."""

    def __init__(
        self,
        settings: JudgeSettings,
        system_prompt: str,
        offload: Offload,
        log: Log,
        *,
        backoff: Sequence[float] = BACKOFF,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._offload = offload
        self._system_prompt = system_prompt
        self._log = log
        self._backoff = tuple(backoff)
        self.concurrency = settings.concurrency
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._left_out: set[str] = set()
        self._failures_in_a_row = 0
        self._key = (settings.key or "").strip()
        self._trouble = _trouble(settings.url, self._key)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key and self._trouble is None else {}
        direct = self._trouble is None and httpx.URL(settings.url).host in LOOPBACK
        self._client = httpx.AsyncClient(timeout=settings.timeout, headers=headers, transport=transport, trust_env=not direct)

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def probe(self) -> str | None:
        """Why the endpoint cannot be reached now; None when anything at all answers there."""
        if self._trouble is not None:
            return self._trouble
        try:
            async with asyncio.timeout(PROBE_TIMEOUT), self._client.stream("GET", self._settings.url):
                return None
        except TimeoutError:
            return f"no answer within {PROBE_TIMEOUT:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return self._clean(error)

    async def trial(self, user_content: str) -> Trial:
        """Whether one call, that is not repeated, gives a verdict that can be read."""
        if self._trouble is not None:
            return Trial(self._trouble)
        try:
            verdict = read_reply(await self._post(user_content), ())
        except _Failed as error:
            return Trial(str(error), error.status)
        return Trial(self._without_key(verdict).reason.removeprefix(ERROR), 200) if verdict.failed else Trial("")

    async def ask(self, user_content: str | None, assertions: Sequence[str]) -> Verdict:
        """The judge's verdict on one scenario; at most `concurrency` calls are under way at once."""
        if user_content is None:
            return no_verdict("nothing to judge: no prediction, conversation or context", assertions)
        async with self._slots:
            try:
                reply = await self._reply(user_content)
                size = len(reply) if isinstance(reply, str) else 0
                verdict = await self._offload.run(size, read_reply, reply, tuple(assertions))
            except _Final as error:
                verdict = failed_verdict(str(error), assertions)
        verdict = self._without_key(verdict)
        self._failures_in_a_row = self._failures_in_a_row + 1 if verdict.failed else 0
        return verdict

    async def _reply(self, user_content: str) -> Any:
        if self._trouble is not None:
            raise _Final(self._trouble)
        tries = 1 if self._failures_in_a_row >= FAILURES_BEFORE_ONE_TRY else TRIES
        for number in range(1, tries + 1):
            try:
                return await self._post(user_content)
            except _TryAgain as error:
                if number == tries:
                    raise _Final(f"{error} ({number} tries)" if number > 1 else str(error)) from error
                wait = self._backoff[min(number - 1, len(self._backoff) - 1)]
                if error.after is not None:
                    wait = min(max(error.after, 0.0), MAX_RETRY_AFTER)
                self._log.info("judge: %s; try %d of %d in %g s", error, number + 1, tries, wait)
                await asyncio.sleep(wait)
        raise _Final("the judge was not asked")

    async def _post(self, user_content: str) -> Any:
        """One try, and one more for each field that the endpoint turns out not to take."""
        while True:
            body = {name: value for name, value in self._body(user_content).items() if name not in self._left_out}
            status, headers, text = await self._exchange(await self._offload.run(len(user_content), _dump, body))
            if status < 300:
                return await self._content(text)
            why = f"the judge answered HTTP {status}: {self._clean(text, 300)}"
            if any(mark in text.lower() for mark in (TOO_LONG_REFUSED if status < 500 else TOO_LONG)):
                raise _Final(why, status)
            if status in (408, 429) or status >= 500:
                raise _TryAgain(why, _retry_after(headers.get("retry-after")), status)
            refused = next((name for name in OPTIONAL_FIELDS if name in body and re.search(rf"\b{name}\b", text)), None)
            if status != 400 or refused is None:
                raise _Final(why, status)
            if refused not in self._left_out:
                self._left_out.add(refused)
                self._log.warning("judge: the endpoint does not take %r; it is left out for the rest of the run", refused)

    async def _exchange(self, body: bytes) -> tuple[int, httpx.Headers, str]:
        try:
            async with (
                asyncio.timeout(self._settings.timeout),
                self._client.stream("POST", self._settings.url, content=body, headers=_JSON) as response,
            ):
                received = bytearray()
                async for part in response.aiter_bytes():
                    received += part
                    if len(received) > MAX_RESPONSE_BYTES:
                        raise _Final(f"the judge's answer is larger than {MAX_RESPONSE_BYTES >> 20} MB")
                return response.status_code, response.headers, received.decode("utf-8", "replace")
        except (httpx.TimeoutException, TimeoutError):
            raise _TryAgain(f"the judge did not answer within {self._settings.timeout:g} s") from None
        except httpx.UnsupportedProtocol as error:
            raise _Final(f"the judge's URL cannot be used: {self._clean(error)}") from None
        except httpx.HTTPError as error:
            raise _TryAgain(f"the judge cannot be reached: {self._clean(error)}") from None
        except (httpx.InvalidURL, ValueError) as error:
            raise _Final(f"the judge cannot be sent a request: {self._clean(error)}") from None

    def _body(self, user_content: str) -> dict[str, Any]:
        settings = self._settings
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": [{"role": "system", "content": self._system_prompt}, {"role": "user", "content": user_content}],
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "seed": settings.seed,
            "chat_template_kwargs": {"enable_thinking": True},
        }
        if settings.thinking_token_budget is not None:
            body["thinking_token_budget"] = settings.thinking_token_budget
        return body

    async def _content(self, text: str) -> Any:
        """The reply's text in a chat completion; raises _Final for anything else."""
        found, content = await self._offload.run(len(text), _completion, text)
        if not found:
            raise _Final(f"the judge's answer is no chat completion: {self._clean(text, 200)!r}", 200)
        return content

    def _clean(self, value: object, limit: int = 1000) -> str:
        """A foreign text on one line, without the key: it is hidden before the text is cut, so that no part of it stays."""
        text = str(value)
        if self._key:
            text = text.replace(self._key, REDACTED)
        return " ".join(text[: 10 * limit].split())[:limit] or type(value).__name__

    def _without_key(self, verdict: Verdict) -> Verdict:
        """The verdict of an endpoint that repeats its request's headers, key and all."""
        if len(self._key) < MIN_SECRET_CHARS:
            return verdict
        raw = verdict.raw_response
        return replace(
            verdict,
            reason=verdict.reason.replace(self._key, REDACTED),
            assertions=tuple(replace(each, reason=each.reason.replace(self._key, REDACTED)) for each in verdict.assertions),
            raw_response=None if raw is None else raw.replace(self._key, REDACTED),
        )


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _completion(text: str) -> tuple[bool, Any]:
    """Whether a text is a chat completion, and its message's content."""
    try:
        return True, json.loads(text)["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return False, None


def _trouble(url: str, key: str) -> str | None:
    """What keeps every call from being made, whatever the endpoint may say; None where nothing does."""
    if not (key.isascii() and key.isprintable()):
        return "the judge's API key holds characters that no HTTP header can carry"
    try:
        port = httpx.URL(url).port
    except (httpx.InvalidURL, ValueError) as error:
        return f"the judge's URL cannot be used: {error}"
    return None if port is None or port < 2**16 else f"the judge's URL cannot be used: there is no port {port}"


def _retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """A `Retry-After` header, seconds or a date, in s from now."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        return parsedate_to_datetime(value).timestamp() - now()
    except (ValueError, TypeError, OverflowError):
        return None
