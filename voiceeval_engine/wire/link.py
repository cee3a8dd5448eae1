"""One bot's connection: connect with retries, handshake, requests matched by id, events out, audio in, clean closing.

Everything a bot sends passes through here and is checked; what cannot be used is logged with the bot's name and skipped. Holds no
rule of the conversation. May import the standard library, websockets, offload, and the wire folder. Rules: wire page, "Transport".
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import ssl
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import broadcast
from websockets.exceptions import ConnectionClosed, InvalidURI, WebSocketException

from voiceeval_engine import __version__
from voiceeval_engine.offload import INLINE_BYTES
from voiceeval_engine.wire import frames, rtvi
from voiceeval_engine.wire.connection import AudioConnection

MAX_MESSAGE_BYTES = 64 * 2**20
CONNECT_DELAYS = (1.0, 2.0, 4.0, 8.0)
OPEN_TIMEOUT = 10.0
BOT_READY_TIMEOUT = 5.0
REQUEST_TIMEOUT = 15.0
CLOSE_TIMEOUT = 2.0
MAX_QUEUED_SECONDS = 2.0
MAX_QUEUED_MESSAGES = 1024
_BUSY_CODE = 1013
_MAX_LOGGED_TROUBLES = 20
_TAKES_PROXY = "proxy" in inspect.signature(connect.__init__).parameters
"""websockets before 15 knows no proxy, so there is none to switch off for loopback."""


class LinkError(Exception):
    """A bot cannot be talked to. The message is a sentence for the operator: which bot (`who`), then `what`, which is kept apart too."""

    def __init__(self, who: str, what: str) -> None:
        super().__init__(f"{who} {what}")
        self.what = what


class ConnectFailed(LinkError):
    """No connection, after all tries."""


class RequestFailed(LinkError):
    """A request was refused, not answered in time, or the connection was lost before the answer."""


class NotAnswered(RequestFailed):
    """A request was not answered in time."""


@dataclass(frozen=True, slots=True)
class HeavyReply:
    """A reply too large to be read in the event loop; `text` is its JSON as it came. Read it in a worker process."""

    text: str


class Listener(Protocol):
    """Who gets what a bot sends. Calls come from the event loop and must not block."""

    def on_audio(self, frame: frames.AudioFrame) -> None: ...
    def on_message(self, message: rtvi.Message) -> None: ...
    def on_interruption(self) -> None: ...
    def on_lost(self, sentence: str) -> None: ...


@dataclass(slots=True)
class _Pending:
    type_: str
    reply: asyncio.Future[Any]


class BotLink:
    """One connection to one bot. Use `open`, then requests and audio, then `close` on every path.

    Without a listener, events are skipped (the set-up connection). `close` may be called at any time and more than once.
    """

    def __init__(self, bot: str, url: str, log: logging.LoggerAdapter[logging.Logger], listener: Listener | None = None) -> None:
        self.bot = bot
        self.url = url
        self.dropped_frames = 0
        self.busy = False
        """Whether the bot closed a connection because it talks to somebody else."""
        self._log = log
        self._listener = listener
        self._ws: AudioConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ids = itertools.count(1)
        self._pending: dict[str, _Pending] = {}
        self._ready: asyncio.Future[None] | None = None
        self._backlog: deque[bytes] = deque()
        self._opened = False
        self._closing = False
        self._lost: str | None = None
        self._fault: str | None = None
        self._troubles = 0

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended, for whatever reason."""
        return self._lost is not None

    @property
    def is_ready(self) -> bool:
        """Whether the bot has sent `bot-ready` on this connection."""
        return self._ready is not None and self._ready.done()

    async def open(self, delays: tuple[float, ...] = CONNECT_DELAYS, frame_seconds: float = 0.016) -> None:
        """Connect and shake hands, trying again after each of `delays` (s); raises ConnectFailed with the last reason."""
        self._max_backlog = max(1, int(MAX_QUEUED_SECONDS / frame_seconds))
        for delay in (*delays, None):
            try:
                await self._open_once()
                self._opened = True
                return
            except (OSError, WebSocketException, TimeoutError, EOFError) as error:
                reason = _sentence(error, self.url)
                final = isinstance(error, InvalidURI | ssl.SSLError)
            except ValueError as error:
                reason, final = f"the URL cannot be used: {error}", True
            await self._shut()
            if delay is None or final:
                raise ConnectFailed(f"{self.bot} bot at {self.url}:", reason)
            self._log.info("%s bot at %s: %s; next try in %g s", self.bot, self.url, reason, delay)
            await asyncio.sleep(delay)

    async def request(self, t: str, d: dict[str, Any], timeout: float = REQUEST_TIMEOUT) -> Any:  # noqa: ASYNC109
        """Send one `client-message` and return its result; raises RequestFailed on a refusal, silence or a lost connection.

        A result that is a literal false is returned: its caller knows what that means. A very large one comes as HeavyReply.
        """
        reply = await self._exchange(t, lambda id_: rtvi.client_message(t, d, id_), timeout)
        if isinstance(reply, rtvi.ErrorData):
            raise RequestFailed(f"{self.bot} bot", f"refused {t}: {rtvi.shorten(reply.error)}")
        return reply

    def send_text(self, content: str) -> None:
        """The kick-off; no reply is awaited."""
        self._send(rtvi.send_text(self._next_id(), content))

    def send_audio(self, frame: bytes) -> None:
        """Hand over one encoded audio frame; never waits. Beyond 2 s of unsent audio the oldest is dropped and counted."""
        ws = self._ws
        if ws is None:
            return
        backlog = self._backlog
        if not backlog and not ws.full:
            ws.send_whole(frame)
            return
        backlog.append(frame)
        while backlog and not ws.full:
            ws.send_whole(backlog.popleft())
        if len(backlog) > self._max_backlog:
            backlog.popleft()
            self.dropped_frames += 1
            if self.dropped_frames == 1:
                self._log.warning(
                    "%s bot takes no audio: more than %g s unsent, the oldest is dropped", self.bot, MAX_QUEUED_SECONDS
                )

    async def close(self) -> None:
        """Close cleanly, within 2 s; requests still waiting fail."""
        self._closing = True
        await self._shut()
        if self.dropped_frames:
            self._log.warning("%s bot: %d audio frames could not be sent in time and were dropped", self.bot, self.dropped_frames)
            self.dropped_frames = 0

    async def _open_once(self) -> None:
        loop = asyncio.get_running_loop()
        self._lost = None
        self._ready = loop.create_future()
        ws = await connect(
            self.url,
            create_connection=AudioConnection,
            compression=None,
            open_timeout=OPEN_TIMEOUT,
            ping_timeout=None,
            close_timeout=CLOSE_TIMEOUT,
            max_size=MAX_MESSAGE_BYTES,
            max_queue=MAX_QUEUED_MESSAGES,
            **_proxy_option(self.url),
        )
        self._ws = cast(AudioConnection, ws)
        self._ws.take = self._take
        self._reader = loop.create_task(self._read(self._ws), name=f"read {self.bot} bot")
        self._send(rtvi.client_ready(self._next_id(), __version__))
        await asyncio.wait({self._ready, self._reader}, timeout=BOT_READY_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if self._lost is not None:
            raise ConnectionError(self._lost)
        if not self._ready.done():
            self._log.warning("%s bot at %s sent no bot-ready within %g s; going on", self.bot, self.url, BOT_READY_TIMEOUT)

    async def _exchange(self, t: str, build: Any, seconds: float) -> Any:
        id_ = self._next_id()
        pending = _Pending(t, asyncio.get_running_loop().create_future())
        self._pending[id_] = pending
        try:
            self._send(build(id_))
            async with asyncio.timeout(seconds):
                return await pending.reply
        except TimeoutError:
            raise NotAnswered(f"{self.bot} bot", f"did not answer {t} within {seconds:g} s") from None
        finally:
            self._pending.pop(id_, None)

    def _send(self, text: str) -> None:
        if self._ws is None or self._lost is not None:
            raise RequestFailed(f"{self.bot} bot:", self._lost or "not connected")
        broadcast((self._ws,), frames.encode_message(text))

    def _next_id(self) -> str:
        return f"{self.bot}-{next(self._ids)}"

    async def _read(self, ws: AudioConnection) -> None:
        sentence = "the connection ended"
        try:
            async for data in ws:
                ws.unread -= 1
                self._receive(data)
            sentence = _close_sentence(ws)
        except ConnectionClosed:
            sentence = _close_sentence(ws)
        except asyncio.CancelledError:
            sentence = self._fault or "the connection was closed by us"
            raise
        except Exception as error:  # noqa: BLE001 - a reader that dies unseen would look like a bot that says nothing
            sentence = self._reading_failed(error)
        finally:
            self._lost = sentence
            self.busy = ws.protocol.close_code == _BUSY_CODE
            for pending in self._pending.values():
                if not pending.reply.done():
                    pending.reply.set_exception(RequestFailed(f"{self.bot} bot:", f"{sentence} before it answered {pending.type_}"))
            if self._listener is not None and self._opened and not self._closing:
                self._listener.on_lost(sentence)

    def _take(self, data: bytes) -> None:
        try:
            self._receive(data)
        except Exception as error:  # noqa: BLE001 - it ends the reader, as it would if the reader had read the message
            self._fault = self._reading_failed(error)
            if self._ws is not None and self._reader is not None:
                self._ws.take = None
                self._reader.cancel()

    def _reading_failed(self, error: Exception) -> str:
        self._log.exception("%s bot: reading failed", self.bot)
        return f"reading failed: {error!r}"

    def _receive(self, data: str | bytes) -> None:
        try:
            if isinstance(data, str):
                raise frames.BadFrame(f"a text message, not a binary frame: {rtvi.shorten(data)!r}")
            frame = frames.decode(data)
            if isinstance(frame, frames.AudioFrame):
                if self._listener is not None:
                    self._listener.on_audio(frame)
            elif isinstance(frame, frames.MessageFrame):
                self._receive_message(frame.text)
            elif isinstance(frame, frames.InterruptionFrame) and self._listener is not None:
                self._listener.on_interruption()
        except (frames.BadFrame, rtvi.BadMessage) as error:
            self.trouble(str(error))

    def trouble(self, sentence: str) -> None:
        """Log something a bot sent that cannot be used; after 20 of them only every hundredth is logged."""
        self._troubles += 1
        if self._troubles <= _MAX_LOGGED_TROUBLES or self._troubles % 100 == 0:
            self._log.warning("%s bot, unusable message %d: %s", self.bot, self._troubles, sentence)

    def _receive_message(self, text: str) -> None:
        if len(text) > INLINE_BYTES:
            self._receive_heavy(text)
            return
        try:
            message = rtvi.parse(text)
        except rtvi.BadMessage as error:
            self._fail_reply(text, error)
            raise
        if message.id is not None and (pending := self._pending.get(message.id)) is not None:
            if not pending.reply.done():
                data = message.data
                pending.reply.set_result(data.d if isinstance(data, rtvi.ServerResponseData) else data)
            return
        if message.type == "bot-ready":
            if self._ready is not None and not self._ready.done():
                self._ready.set_result(None)
        elif self._listener is not None:
            self._listener.on_message(message)
        elif isinstance(message.data, rtvi.ErrorData):
            self._log.warning("%s bot reports: %s", self.bot, rtvi.shorten(message.data.error))

    def _fail_reply(self, text: str, error: rtvi.BadMessage) -> None:
        """A reply that cannot be used ends its request now, not after the time-out."""
        try:
            pending = self._pending.get(rtvi.parse_envelope(text).id or "")
        except rtvi.BadMessage:
            return
        if pending is not None and not pending.reply.done():
            pending.reply.set_exception(
                RequestFailed(f"{self.bot} bot", f"answered {pending.type_} with an unusable reply: {error}")
            )

    def _receive_heavy(self, text: str) -> None:
        """Match a very large reply by its head alone; a very large event is of no use and skipped."""
        for id_, pending in self._pending.items():
            if f'"{id_}"' in text[:400] or f'"{id_}"' in text[-400:]:
                if not pending.reply.done():
                    pending.reply.set_result(HeavyReply(text))
                return
        raise rtvi.BadMessage(f"an event of {len(text)} characters, skipped: {rtvi.shorten(text)!r}")

    async def _shut(self) -> None:
        ws, reader, self._ws, self._reader = self._ws, self._reader, None, None
        self._backlog.clear()
        try:
            if ws is not None:
                await ws.close()
        except asyncio.CancelledError:
            if ws is not None:
                ws.transport.abort()
            raise
        finally:
            if reader is not None:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)


def _proxy_option(url: str) -> Any:
    return {"proxy": None} if _TAKES_PROXY and _is_loopback(url) else {}


def _is_loopback(url: str) -> bool:
    host = url.split("://", 1)[-1].split("/", 1)[0].rsplit("@", 1)[-1]
    return host.startswith(("localhost", "127.", "[::1]"))


def _close_sentence(ws: ClientConnection) -> str:
    code, reason = ws.protocol.close_code, rtvi.shorten(ws.protocol.close_reason or "")
    if code == _BUSY_CODE:
        return f"the bot is busy with another client (1013 {reason})"
    if code in (None, 1006):
        return "the connection was lost without a closing handshake"
    return f"the bot closed the connection ({code}{' ' + reason if reason else ''})"


def _sentence(error: BaseException, url: str) -> str:
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "nothing listens there (connection refused)"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return f"no answer within {OPEN_TIMEOUT:g} s"
    if isinstance(error, InvalidURI):
        return f"the URL cannot be used: {error}"
    if isinstance(error, ConnectionError) and url.startswith("wss:"):
        return "the connection was closed during the TLS handshake; does the bot speak TLS (wss) at all?"
    if isinstance(error, ConnectionResetError):
        return "the connection was reset"
    return rtvi.shorten(str(error)) or type(error).__name__
