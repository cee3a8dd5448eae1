"""One client's connection to a bot: messages in, replies and speech out.

The doing, with few rules: what to say and when comes from `script`, what is heard from `ears`, requests go to `memory`, sound goes
through `mouth`. May import wire, scenarios, its own folder and websockets.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from voiceeval_engine.bots import voice
from voiceeval_engine.bots.ears import Ears, Heard, SpeechStarted
from voiceeval_engine.bots.memory import Memory, ToolOutcome, UnknownRequest
from voiceeval_engine.bots.mouth import Mouth
from voiceeval_engine.bots.script import Attempts, Cue, Manners, Performance, is_spoken_over
from voiceeval_engine.domains.registry import Side
from voiceeval_engine.scenarios.script import END_TOOL, Step, ToolCall
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import AudioFrame, BadFrame, MessageFrame, decode, encode_interruption, encode_message

_EXIT_AFTER = 0.3
"""s between the last words' end and `<exit>`, so that they have been played when the conversation ends."""
_GET_READY = 0.02
"""s before its first frame that an utterance is committed to: sound is made then."""
_MODEL = {"processor": "ScriptLLM#0", "model": "script"}


@dataclass(frozen=True)
class Handoff:
    """One answer as the bot itself measured it, on the event loop's clock (s).

    `heard_end`: arrival of the other's last speech frame. `first_audio`, `first_speech`: when the answer's first frame, and its
    first frame with speech, had been sent. `speech_due`: when that speech can be heard at the earliest.
    """

    heard_end: float
    first_audio: float
    first_speech: float
    speech_due: float


@dataclass
class BotState:
    """What one bot keeps between connections."""

    side: Side
    manners: Manners
    attempts: Attempts
    memory: Memory
    partner: Memory | None = None
    """The other bot of the pair: a synthetic voice cannot be transcribed, so what was said is looked up there once it was heard."""
    handoffs: list[Handoff] = field(default_factory=list)
    performance: Performance | None = None
    performed_epoch: int = -1


class Conversation:
    """One connection. `run` returns when it is closed, however that came about."""

    def __init__(self, socket: ServerConnection, state: BotState) -> None:
        self._socket = socket
        self._state = state
        self._memory = state.memory
        self._loop = asyncio.get_running_loop()
        self._epoch = -1
        self._cue: Cue | None = None
        self._performing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._hang_over: asyncio.TimerHandle | None = None
        self._prepared: Step | None = None
        self._spoke_until = float("-inf")
        self._adopt_script()

    async def run(self) -> None:
        """Serve until the connection ends."""
        try:
            async for data in self._socket:
                if isinstance(data, str):
                    break
                frame = decode(data)
                if isinstance(frame, AudioFrame):
                    await self._hear(self._ears.hear(self._loop.time(), frame.pcm))
                elif isinstance(frame, MessageFrame):
                    await self._read(frame.text)
        except (BadFrame, ConnectionClosed):
            pass  # As a real server: what does not parse closes the connection, and a lost client is no error.
        finally:
            self._end_speech()
            await self._socket.close()

    def _adopt_script(self) -> None:
        """Take manners from the script that the memory holds now; what an earlier script was about to say is dropped."""
        if self._epoch == self._memory.epoch:
            return
        self._end_speech()
        self._epoch = self._memory.epoch
        self._manners = self._state.manners.overridden(self._memory.script.manners)
        self._ears = Ears(self._manners.hang_over)
        self._mouth = Mouth(self._manners, voice.TIMBRES[self._state.side], self._send, self._event, self._spawn)
        if self._manners.streams_silence:
            self._spawn(self._mouth.stream_silence())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _end_speech(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._hang_over is not None:
            self._hang_over.cancel()
        self._performing = self._hang_over = self._cue = self._prepared = None

    def _performance(self) -> Performance:
        state = self._state
        if state.performance is None or state.performed_epoch != self._epoch:
            attempt = state.attempts.begin(state.side, self._memory.script.name)
            state.performance = Performance(self._memory.script, attempt, self._manners.delay)
            state.performed_epoch = self._epoch
        return state.performance

    async def _send(self, data: bytes) -> None:
        await self._socket.send(data)

    async def _event(self, type_: str, data: Any, id_: str | None = None) -> None:
        await self._socket.send(encode_message(rtvi.build(type_, data, id_)))

    async def _read(self, text: str) -> None:
        try:
            message = rtvi.parse_envelope(text)
        except rtvi.BadMessage as error:
            await self._event("error", {"error": str(error), "fatal": False})
            return
        data = message.data if isinstance(message.data, dict) else {}
        if message.type == "client-ready":
            about = {"library": "voiceeval-bots", "library_version": "1"}
            for _ in range(2):
                await self._event("bot-ready", {"version": rtvi.PROTOCOL_VERSION, "about": about}, message.id)
        elif message.type == "client-message":
            await self._answer(str(data.get("t")), data.get("d"), message.id)
        elif message.type == "send-text" and isinstance(data.get("content"), str):
            await self._kick_off(data["content"], data.get("options"))
        else:
            await self._event("error-response", {"error": f"unsupported message: {message.type}"}, message.id)

    async def _answer(self, t: str, d: Any, id_: str | None) -> None:
        try:
            result = self._memory.answer(t, d)
        except UnknownRequest:
            await self._event("error-response", {"error": f"unknown message type: {t}"}, id_)
            return
        self._adopt_script()
        await self._event("server-response", {"t": t, "d": result}, id_)

    async def _kick_off(self, content: str, options: Any) -> None:
        self._memory.heard(content)
        if isinstance(options, dict) and options.get("run_immediately") is False:
            return
        self._drop_cue()
        self._mouth.cut()
        await self._send(encode_interruption())
        await self._event("bot-interrupted", None)
        self._follow(self._performance().opening(self._loop.time()))

    async def _hear(self, heard: Heard | None) -> None:
        talking = self._mouth.talking_since
        if heard is None:
            if talking is not None and is_spoken_over(self._ears.last_loud, talking, self._ears.speaking_since):
                self._interrupt()
        elif isinstance(heard, SpeechStarted):
            self._wait_for_end()
            if talking is None or self._loop.time() < talking:
                self._drop_cue(unless_barging_in=True)
                if self._cue is None:
                    self._follow(self._performance().other_started(heard.at))
            await self._event("user-started-speaking", None)
        else:
            await self._note_heard()
            if self._mouth.talking_since is None and self._cue is None and heard.at >= self._spoke_until:
                self._follow(self._performance().other_ended(heard.at))

    def _wait_for_end(self) -> None:
        if self._hang_over is not None:
            self._hang_over.cancel()
        self._hang_over = self._loop.call_at(self._ears.last_loud + self._manners.hang_over, self._check_end)

    def _check_end(self) -> None:
        ended = self._ears.wait(self._loop.time())
        if ended is not None:
            self._spawn(self._hear(ended))
        elif self._ears.speaking_since is not None:
            self._wait_for_end()

    async def _note_heard(self) -> None:
        said = self._state.partner.take_said() if self._state.partner else ""
        text = said or "(speech)"
        self._memory.heard(text)
        await self._event("user-stopped-speaking", None)
        transcription = {"text": text, "user_id": "", "timestamp": "", "final": True}
        await self._event("user-transcription", transcription)

    def _interrupt(self) -> None:
        if self._cue is not None and not self._cue.step.keeps_talking:
            self._mouth.cut()

    def _follow(self, cue: Cue | None) -> None:
        if cue is not None:
            self._cue = cue
            self._performing = self._spawn(self._perform(cue))

    def _drop_cue(self, *, unless_barging_in: bool = False) -> None:
        """Give up what was to be said: the other side goes on speaking. What is being said already is not touched."""
        waiting = self._cue is not None and self._mouth.talking_since is None
        if waiting and self._performing is not None and not (unless_barging_in and self._cue and self._cue.heard_end is None):
            self._performing.cancel()
            self._cue = None
            self._mouth.next_at = None

    async def _perform(self, cue: Cue) -> None:
        step, performance = cue.step, self._performance()
        if self._prepared is not step:
            self._prepared = step
            await self._think(step)
        self._mouth.next_at = cue.at
        await asyncio.sleep(max(0.0, cue.at - self._loop.time() - _GET_READY))
        performance.said(step)
        self._prepared = None
        if step.say is not None:
            await self._say(cue, step.say)
        await self._conclude(step)
        if self._cue is cue:
            self._cue = None
        if performance.finished:
            self._state.attempts.finished(self._state.side, self._memory.script.name)

    async def _say(self, cue: Cue, text: str) -> None:
        spoken = await self._mouth.say(text, cue.at, cue.step.die_after)
        # Who yielded owes an answer however short the interruption was; who had its say waits for what comes after it.
        self._spoke_until = float("-inf") if spoken.cut else self._loop.time()
        if spoken.text:
            self._memory.spoke(spoken.text)
        if cue.heard_end is not None and spoken.first_audio and spoken.first_speech and spoken.speech_due:
            handoff = Handoff(cue.heard_end, spoken.first_audio, spoken.first_speech, spoken.speech_due)
            self._state.handoffs.append(handoff)
        if spoken.died:
            self._socket.transport.abort()

    async def _think(self, step: Step) -> None:
        """What an LLM would be asked for: one call for the tools, one for the words."""
        if step.tools:
            await self._event("bot-llm-started", None)
            for call in step.tools:
                await self._run_tool(call)
            await self._event("bot-llm-stopped", None)
            await self._usage(20 * len(step.tools))
        if step.say is not None:
            await self._event("bot-llm-started", None)
            for sentence in voice.sentences(step.say):
                await self._event("bot-llm-text", {"text": sentence})
            await self._event("bot-llm-stopped", None)
            await self._usage(len(step.say) // 4 + 1)

    async def _usage(self, completion: int) -> None:
        tokens = {**_MODEL, "prompt_tokens": self._memory.prompt_tokens(), "completion_tokens": completion}
        ttfb = {**_MODEL, "value": 0.05}
        await self._event("metrics", {"ttfb": [ttfb], "tokens": [tokens], "processing": [], "characters": []})

    async def _run_tool(self, call: ToolCall) -> None:
        await self._event("llm-function-call-started", {"function_name": call.name})
        outcome: ToolOutcome = self._memory.run_tool(call)
        about = {"function_name": call.name, "tool_call_id": outcome.call_id}
        await self._event("llm-function-call-in-progress", {**about, "arguments": call.arguments})
        await self._event("llm-function-call-stopped", {**about, "result": outcome.result, "cancelled": False})
        if outcome.action is not None:
            applied = {"type": "action-applied", "action": outcome.action, "tool_domain": self._memory.tool_domain}
            await self._event("server-message", applied)

    async def _conclude(self, step: Step) -> None:
        if step.final_response is not None:
            payload = json.dumps(step.final_response)
            await self._event("server-message", {"text": f"<final_response>{payload}</final_response>"})
        if step.exit is not None:
            await asyncio.sleep(_EXIT_AFTER)
            await self._run_tool(ToolCall(name=END_TOOL, arguments={"reason": step.exit}))
            await self._event("server-message", {"text": f"<exit>{step.exit}</exit>"})


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """Await `work`; a client that is gone ends it without a word."""
    try:
        await work
    except ConnectionClosed:
        return
