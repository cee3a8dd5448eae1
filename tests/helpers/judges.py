"""A judge on a real port that a test watches and holds back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

from voiceeval_engine.bots.judge import judge_server

PATIENCE = 60.0


class WatchedJudge:
    """The embedded judge inside its `with` block: `asked` counts its calls; `on_asked` runs (in a thread) at each.

    While `answering` is not set, a call waits; while `overloaded` is, it is answered 503. With `refuses` every request is answered 401,
    quoting address and key.
    """

    def __init__(self, on_asked: Callable[[], None] | None = None, *, answers: bool = True, refuses: bool = False) -> None:
        self.asked = 0
        self.on_asked = on_asked
        self.answering, self.overloaded = threading.Event(), threading.Event()
        if answers:
            self.answering.set()
        self._server = judge_server()
        self._server.RequestHandlerClass = _handler(self, self._server.RequestHandlerClass, refuses)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._count = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1/chat/completions"

    def note(self) -> None:
        with self._count:
            self.asked += 1
        if self.on_asked is not None:
            self.on_asked()

    def __enter__(self) -> WatchedJudge:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.answering.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)


def _handler(judge: WatchedJudge, base: Any, refuses: bool) -> type[BaseHTTPRequestHandler]:
    class Watched(base):  # type: ignore[misc]
        def do_GET(self) -> None:  # noqa: N802 - the name is the base class's
            if refuses:
                self._answer(401, self._quoted())
            else:
                super().do_GET()

        def do_POST(self) -> None:  # noqa: N802 - the name is the base class's
            judge.note()
            judge.answering.wait(PATIENCE)
            if judge.overloaded.is_set():
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self._answer(503, {"error": {"message": "overloaded"}})
            elif refuses:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self._answer(401, self._quoted())
            else:
                super().do_POST()

        def _quoted(self) -> dict[str, Any]:
            return {"error": {"message": f"no such key: {self.headers.get('Authorization')} at {self.path}"}}

    return Watched
