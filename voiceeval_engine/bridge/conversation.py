"""One conversation on two open connections: audio both ways, turns, latency, tokens, until the first reason to end.

This is the doing; what counts as a turn, a latency or an end is decided in `turns`, `latency` and `ending`. May import wire, audio,
live, session, scenarios and this folder. Rules: wire page, "One attempt, step by step", steps 3 and 4.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from voiceeval_engine.audio.noise import Noise
from voiceeval_engine.audio.recorder import Recorder
from voiceeval_engine.bridge.ending import Ending, StopReason, is_activity
from voiceeval_engine.bridge.lane import Lane, UnusableAudio
from voiceeval_engine.bridge.latency import find_handoffs, in_order
from voiceeval_engine.bridge.outcome import ConversationSettings, Outcome
from voiceeval_engine.bridge.pacer import Pacer
from voiceeval_engine.bridge.pull import Pulled, pull
from voiceeval_engine.bridge.setup import Pair, SetupFailed, send_deltas
from voiceeval_engine.bridge.sync import Shadow
from voiceeval_engine.bridge.timing import PacingMeter, build_timing
from voiceeval_engine.bridge.tokens import add_tokens
from voiceeval_engine.bridge.turns import Side, Turn, TurnTracker
from voiceeval_engine.live import events
from voiceeval_engine.offload import Offload
from voiceeval_engine.scenarios.model import Scenario
from voiceeval_engine.session.metrics import TokenCount
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import AudioFrame
from voiceeval_engine.wire.link import BotLink, LinkError

Log = logging.LoggerAdapter[logging.Logger]
Emit = Callable[[events.Event], None]

SIDES: tuple[Side, Side] = ("agent", "user")
KICK_OFF_AT = 1.0
KICK_OFF_TEXT = "Hello"
SETTLE_SECONDS = 0.5
MAX_CATCH_UP_FRAMES = 5
CHECK_SECONDS = 0.064
"""Timers and settled turns are looked at about this often; audio goes out on every tick."""
MAX_FINAL_RESPONSES = 1000
SAME_INTERRUPTION_SECONDS = 0.1
"""A bot tells an interruption twice, as a frame and as a message; a Pipecat bot at every turn of the other side, silent or not."""


@dataclass
class _SideListener:
    """Hands one link's messages to the conversation, naming the side."""

    conversation: Conversation
    side: Side

    def on_audio(self, frame: AudioFrame) -> None:
        self.conversation.on_audio(self.side, frame)

    def on_message(self, message: rtvi.Message) -> None:
        self.conversation.on_message(self.side, message)

    def on_interruption(self) -> None:
        self.conversation.on_interruption(self.side)

    def on_lost(self, sentence: str) -> None:
        self.conversation.on_lost(self.side, sentence)


@dataclass
class _Heard:
    """What a side's messages brought besides audio."""

    tokens: TokenCount = field(default_factory=TokenCount)
    ttfb: dict[str, list[float]] = field(default_factory=dict)


class Conversation:
    """Run it once with `run`; it owns both links and the recording and closes them on every path."""

    def __init__(
        self,
        scenario: Scenario,
        attempt: int,
        pair: Pair,
        settings: ConversationSettings,
        *,
        noise: Noise | None,
        shadow: Shadow | None,
        pacer: Pacer,
        offload: Offload,
        emit: Emit,
        log: Log,
    ) -> None:
        self._scenario = scenario
        self._attempt = attempt
        self._settings = settings
        self._shadow = shadow
        self._pacer = pacer
        self._offload = offload
        self._emit = emit
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._links: dict[Side, BotLink] = {
            side: BotLink(side, pair.url(side), log, _SideListener(self, side)) for side in ("user", "agent")
        }
        chunk = max(1, round(settings.chunk_seconds * settings.sample_rate))
        self._tracker = TurnTracker()
        self._lanes: dict[Side, Lane] = {
            "agent": Lane("agent", settings.sample_rate, chunk, self._tracker, None),
            "user": Lane("user", settings.sample_rate, chunk, self._tracker, noise),
        }
        self._heard: dict[Side, _Heard] = {side: _Heard() for side in SIDES}
        self._ending = Ending(policy=settings.policy, duration=settings.duration, inactivity_timeout=settings.inactivity_timeout)
        self._check_every = max(1, round(CHECK_SECONDS / settings.chunk_seconds))
        self._pacing = PacingMeter()
        self._final_responses: list[str] = []
        self._interrupted: dict[Side, float] = dict.fromkeys(SIDES, float("-inf"))
        self._zero: float | None = None
        self._ticks = 0
        self._kicked_off = False
        self._over: asyncio.Future[StopReason] = self._loop.create_future()
        self._applied: asyncio.Queue[tuple[Side, dict[str, Any]]] = asyncio.Queue()
        self._recorder: Recorder | None = None

    async def run(self) -> Outcome:
        """Connect, talk, pull, close. Raises SetupFailed when a bot cannot be reached, OSError when the disk takes no recording."""
        syncing: asyncio.Task[None] | None = None
        try:
            await self._connect()
            self._recorder = Recorder(
                self._settings.recording, self._settings.sample_rate, self._settings.chunk_seconds, self._offload.threads
            )
            self._emit(events.ConversationStarted(scenario=self._scenario.name, attempt=self._attempt))
            if self._shadow is not None:
                syncing = self._loop.create_task(self._sync(self._shadow), name="cross-side sync")
            self._pacer.join(self._on_tick)
            reason = await self._over
            started_at = datetime.now() - timedelta(seconds=self._now())
            duration = self._ending.at - (self._zero or self._ending.at)
            self._log.info("conversation ended: %s after %.3f s", reason, duration)
            if reason in ("[EXIT]", "[SIMULATOR_EXIT]"):
                await asyncio.sleep(SETTLE_SECONDS)
            self._pacer.leave(self._on_tick)
            turns = self._settle_turns()
            self._emit(
                events.ConversationEnded(
                    scenario=self._scenario.name,
                    attempt=self._attempt,
                    stop_reason=reason,
                    duration=duration,
                    turns=len(turns),
                )
            )
            pulled = await self._pull()
            await self._recorder.close()
            return self._outcome(turns, reason, started_at, duration, pulled)
        finally:
            self._pacer.leave(self._on_tick)
            if syncing is not None:
                syncing.cancel()
                await asyncio.gather(syncing, return_exceptions=True)
            await asyncio.gather(*(link.close() for link in self._links.values()))
            self._links.clear()  # each knows this object: a ring of buffers that would wait for the garbage collector
            if self._recorder is not None:
                with contextlib.suppress(OSError):  # it was told above, or something else is on its way up
                    await self._recorder.close()

    def stop(self) -> bool:
        """The operator ends it: `run` returns with what there is. False while there is nothing yet to end; cancel `run` then."""
        if self._zero is None:
            return False
        self._ending.stopped(time.monotonic())
        self._finish()
        return True

    def on_audio(self, side: Side, frame: AudioFrame) -> None:
        lane, now = self._lanes[side], time.monotonic()
        try:
            loud = lane.receive(frame, now)
        except UnusableAudio as error:
            self._links[side].trouble(str(error))
            return
        if lane.format_note is not None:
            self._log.warning("%s bot %s", side, lane.format_note)
            lane.format_note = None
        if loud:
            self._ending.activity(now)

    def on_message(self, side: Side, message: rtvi.Message) -> None:
        now = self._now()
        self._log.debug("%8.3f %s bot: %s", now, side, rtvi.describe(message))
        if is_activity(message.type):
            self._ending.activity(time.monotonic())
        data, lane = message.data, self._lanes[side]
        if message.type in ("bot-started-speaking", "bot-stopped-speaking"):
            started = message.type == "bot-started-speaking"
            lane.mark("started" if started else "stopped", "", now)
            self._emit(events.Speaking(side=side, on=started, at=now, **self._names()))
        elif message.type == "bot-tts-text" and isinstance(data, rtvi.TextData):
            lane.mark("spoken", data.text, now)
            self._emit(events.Words(side=side, text=events.clip(data.text), at=now, **self._names()))
        elif isinstance(data, rtvi.BotOutputData) and data.completed:
            lane.mark("output", data.text, now)
        elif isinstance(data, rtvi.BotOutputData) and data.announced:
            lane.mark("announced", data.text, now)
        elif message.type == "bot-transcription" and isinstance(data, rtvi.TextData):
            lane.mark("transcription", data.text, now)
        elif message.type == "bot-interrupted":
            self.on_interruption(side)
        elif isinstance(data, rtvi.ServerMessageData):
            self._on_server_message(side, data, now)
        elif isinstance(data, rtvi.MetricsData):
            self._on_metrics(side, data)
        elif isinstance(data, rtvi.FunctionCallData) and message.type in ("llm-function-call", "llm-function-call-started"):
            name = events.clip(data.function_name or "a tool")
            self._emit(events.ToolCalled(side=side, name=name, applied=False, at=now, **self._names()))
        elif isinstance(data, rtvi.ErrorData):
            self._log.warning("%s bot reports%s: %s", side, " a fatal error" if data.fatal else "", rtvi.shorten(data.error))

    def on_interruption(self, side: Side) -> None:
        """Told as an event only where there was something to interrupt: bots send one at every kick-off, before anything was said."""
        now = time.monotonic()
        lane = self._lanes[side]
        cut = lane.holds_speech or self._tracker.speaking(side)
        lane.interrupt(now)
        if not cut:
            return
        if now - self._interrupted[side] > SAME_INTERRUPTION_SECONDS:
            self._emit(events.Interrupted(side=side, at=self._now(), **self._names()))
        self._interrupted[side] = now

    def on_lost(self, side: Side, sentence: str) -> None:
        self._log.warning("%s bot: %s", side, sentence)
        self._ending.lost(side, time.monotonic())
        self._finish()

    async def _connect(self) -> None:
        try:
            for side in ("user", "agent"):
                await self._links[side].open(frame_seconds=self._settings.chunk_seconds)
        except LinkError as error:
            raise SetupFailed("conversation", error) from error

    def _on_server_message(self, side: Side, data: rtvi.ServerMessageData, now: float) -> None:
        if data.text is not None:
            if side == "agent":
                room = MAX_FINAL_RESPONSES - len(self._final_responses)
                self._final_responses += rtvi.final_responses(data.text)[:room]
            if rtvi.exit_text(data.text) is not None:
                self._ending.exit(side, time.monotonic())
                self._finish()
        elif data.type == "action-applied" and data.action is not None:
            name = events.clip(str(data.action.get("name")))
            self._emit(events.ToolCalled(side=side, name=name, applied=True, at=now, **self._names()))
            if self._shadow is not None:
                self._applied.put_nowait((side, data.action))

    def _on_metrics(self, side: Side, data: rtvi.MetricsData) -> None:
        heard = self._heard[side]
        for entry in data.tokens:
            heard.tokens, trouble = add_tokens(heard.tokens, entry)
            if trouble is not None:
                self._links[side].trouble(trouble)
        for entry in data.ttfb:
            value = entry.get("value") if isinstance(entry, dict) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6:
                heard.ttfb.setdefault(rtvi.shorten(str(entry.get("processor")), 80), []).append(round(float(value), 6))

    def _on_tick(self, target: float) -> None:
        try:
            self._tick(max(time.monotonic(), target), target)
        except Exception as error:  # noqa: BLE001 - one conversation's fault must not stop the others' clock
            self._log.exception("conversation broke off")
            if not self._over.done():
                self._over.set_exception(error)
            self._pacer.leave(self._on_tick)

    def _tick(self, now: float, target: float) -> None:
        if self._zero is None:
            self._zero = target
            self._ending.start(target)
        elapsed = now - self._zero
        wanted = int(elapsed / self._settings.chunk_seconds + 1e-6) + 1
        for _ in range(min(wanted - self._ticks, MAX_CATCH_UP_FRAMES)):
            self._send_frames(now, elapsed)
        if self._ticks % self._check_every:
            return
        for turn in self._tracker.advance(elapsed, self._ticks):
            self._emit_turn(turn)
        if not self._kicked_off and elapsed >= KICK_OFF_AT and not self._over.done():
            self._kicked_off = True
            self._links["agent"].send_text(KICK_OFF_TEXT)
        speech_buffered = self._lanes["agent"].holds_speech or self._lanes["user"].holds_speech
        if self._ending.check(now, speech_buffered=speech_buffered) is not None:
            self._finish()

    def _send_frames(self, now: float, elapsed: float) -> None:
        zero, tick = now - elapsed, self._ticks
        self._tracker.clock(elapsed, tick)
        to_agent, agent_pcm, user_speaks = self._lanes["user"].next_frame(now, elapsed, zero, tick)
        self._links["agent"].send_audio(to_agent)
        to_user, user_pcm, agent_speaks = self._lanes["agent"].next_frame(now, elapsed, zero, tick)
        self._links["user"].send_audio(to_user)
        if user_speaks or agent_speaks:
            self._ending.activity(now)
        if self._recorder is not None:
            self._recorder.add(agent_pcm, user_pcm)
        self._pacing.add(max(0.0, elapsed - tick * self._settings.chunk_seconds))
        self._ticks += 1

    def _finish(self) -> None:
        if self._ending.reason is not None and not self._over.done():
            self._over.set_result(self._ending.reason)

    def _settle_turns(self) -> list[Turn]:
        for lane in self._lanes.values():
            lane.drain()
        for turn in self._tracker.finish(self._now()):
            self._emit_turn(turn)
        return in_order(self._tracker.turns)

    def _emit_turn(self, turn: Turn) -> None:
        latency = None
        if turn.side == "agent":
            turns = self._tracker.turns
            latency = next((each.latency_ms for each in find_handoffs(turns) if turns[each.agent] is turn), None)
        self._emit(
            events.TurnEnded(
                side=turn.side,
                text=events.clip(turn.text),
                start=turn.start,
                end=turn.end,
                latency_ms=latency,
                **self._names(),
            )
        )

    async def _sync(self, shadow: Shadow) -> None:
        """Replay what the bots applied, in order; in a thread apart, because it copies databases and runs the domain's code."""
        while True:
            side, action = await self._applied.get()
            deltas = await self._offload.apart(shadow.replay, side, action)
            await send_deltas(self._links, self._scenario.domain, deltas, self._log)

    async def _pull(self) -> dict[Side, Pulled]:
        include_db = bool(self._scenario.db_state_assertions)
        ask = partial(pull, include_db=include_db, offload=self._offload, log=self._log)
        agent, user = await asyncio.gather(ask(self._links["agent"]), ask(self._links["user"]))
        return {"agent": agent, "user": user}

    def _outcome(
        self, turns: list[Turn], reason: StopReason, started_at: datetime, duration: float, pulled: dict[Side, Pulled]
    ) -> Outcome:
        handoffs = find_handoffs(turns)
        timing = build_timing(
            turns,
            handoffs,
            chunk_seconds=self._settings.chunk_seconds,
            by_events={side: self._tracker.measured_by_events(side) for side in SIDES},
            ttfb={side: self._heard[side].ttfb for side in SIDES},
            pacing=self._pacing.summary(),
            dropped_seconds={side: self._lanes[side].dropped_seconds for side in SIDES},
        )
        if self._shadow is not None:
            for trouble in self._shadow.troubles:
                self._log.warning("cross-side sync: %s", trouble)
        return Outcome(
            turns=tuple(turns),
            handoffs=tuple(handoffs),
            stop_reason=reason,
            simulator_reported=self._ending.simulator_reported,
            started_at=started_at,
            ended_at=datetime.now(),
            duration_seconds=duration,
            tokens={side: self._heard[side].tokens for side in SIDES},
            pulled=pulled,
            final_responses=tuple(self._final_responses),
            timing=timing,
        )

    def _now(self) -> float:
        return time.monotonic() - self._zero if self._zero is not None else 0.0

    def _names(self) -> dict[str, Any]:
        return {"scenario": self._scenario.name, "attempt": self._attempt}
