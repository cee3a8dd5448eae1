"""The embedded judge: a local OpenAI-compatible endpoint for the demo, rule-based, and its reasons say so.

It reads the sections it is sent: the score is the share of the reference's actions that the prediction holds, an assertion of the form
`The agent says "..."` is looked up in that side's context. It answers 503 to whoever tells it that the judge is out, so that a
failing judge can be shown. May import the standard library only. Rule: scoring page, "Judge".
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OUT_MARK = "[the judge is out]"
MAX_REQUEST_BYTES = 64 * 2**20
_SECTION = re.compile(r"^<(\w+)>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)
_SAYS = re.compile(r'^(?:\d+\. )?The (agent|user) says "(.+)"\.?$')
_BY_RULE = "by rule, no model was asked: "


def sections(user_content: str) -> dict[str, str]:
    """The tagged sections of a judge's input."""
    return dict(_SECTION.findall(user_content))


def grade(user_content: str) -> dict[str, Any]:
    """The verdict on one judge's input: score, reason, and one verdict per assertion."""
    found = sections(user_content)
    wanted, given = _actions(found.get("reference")), _actions(found.get("prediction"))
    present = [action for action in wanted if action in given]
    score = len(present) / len(wanted) if wanted else 1.0
    verdict: dict[str, Any] = {
        "score": round(score, 3),
        "reason": f"{_BY_RULE}{len(present)} of {len(wanted)} reference actions stand in the prediction",
    }
    if "nl_assertions" in found:
        lines = found["nl_assertions"].splitlines()
        verdict["nl_assertion_verdicts"] = [
            {"index": number, **_assertion(line, found)} for number, line in enumerate(lines, start=1)
        ]
    return verdict


def _actions(text: str | None) -> list[tuple[str, str]]:
    """Name and arguments of each action in a section, in a form that can be compared."""
    try:
        value = json.loads(text or "null")
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        value = value.get("actions", [value])
    if not isinstance(value, list):
        return []
    return [
        (str(item.get("name")), json.dumps(_plain(item.get("arguments", item)), sort_keys=True))
        for item in value
        if isinstance(item, dict)
    ]


def _plain(value: Any) -> Any:
    """A value as the judge compares it: case does not count, 3.0 is 3."""
    if isinstance(value, str):
        return value.strip().lower()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _assertion(line: str, found: dict[str, str]) -> dict[str, Any]:
    says = _SAYS.match(line)
    if says is None:
        return {"passed": False, "reason": f'{_BY_RULE}only assertions like: The agent says "..." can be decided'}
    side, words = says.groups()
    spoken = _spoken(found.get(f"{side}_context_history", "[]"))
    quote = next((text for text in spoken if words.lower() in text.lower()), None)
    if quote is None:
        return {"passed": False, "reason": f"{_BY_RULE}none of the {side}'s {len(spoken)} messages holds {words!r}"}
    return {"passed": True, "reason": f"{_BY_RULE}the {side} said {quote!r}"}


def _spoken(context: str) -> list[str]:
    try:
        messages = json.loads(context)
    except (ValueError, RecursionError):
        return []
    if not isinstance(messages, list):
        return []
    return [
        message["content"]
        for message in messages
        if isinstance(message, dict) and message.get("role") == "assistant" and isinstance(message.get("content"), str)
    ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": [{"id": "embedded-rules", "object": "model"}]})

    def do_POST(self) -> None:
        try:
            size = int(self.headers.get("Content-Length", ""))
            if not 0 <= size <= MAX_REQUEST_BYTES:
                raise ValueError("a request of that size is not read")
            user_content = str(json.loads(self.rfile.read(size))["messages"][-1]["content"])
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            self.close_connection = True
            self._answer(400, {"error": {"message": f"not a chat completion request: {error}"}})
            return
        if OUT_MARK in user_content:
            self._answer(503, {"error": {"message": "the judge is out"}})
            return
        message = {"role": "assistant", "content": json.dumps(grade(user_content))}
        self._answer(200, {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    def log_message(self, *_: object) -> None:
        """Silent: standard error belongs to the program."""

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hung up is nobody's trouble: an engine that stops does so."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def judge_server(port: int = 0) -> ThreadingHTTPServer:
    """A judge on 127.0.0.1, not yet serving; port 0 takes a free one. Raises OSError where the port cannot be had."""
    return _Server(("127.0.0.1", port), _Handler)
