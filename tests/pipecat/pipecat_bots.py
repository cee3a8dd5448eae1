"""Bots whose transport, serializer, pipeline and RTVI are Pipecat's own; only the speech and language services are stand-ins.

A bot follows a script: it says its next line when it is told to (`send-text`) or when who it hears falls silent. What the stand-in
pushes are the real frames of a TTS and an LLM service, in the order in which Pipecat's own services push them. `truth` holds what the
bot itself measured. Works with pipecat-ai 1.6 and later.
"""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

import numpy as np
from loguru import logger
from pipecat.audio.mixers.base_audio_mixer import BaseAudioMixer
from pipecat.frames.frames import (
    AggregatedTextFrame,
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMMessagesAppendFrame,
    MetricsFrame,
    SpeechOutputAudioRawFrame,
    StartFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
    TTSTextFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.metrics.metrics import LLMTokenUsage, LLMUsageMetricsData, TTFBMetricsData, TTSUsageMetricsData
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.processors.frameworks.rtvi import (
    RTVIClientMessageFrame,
    RTVIObserverParams,
    RTVIServerMessageFrame,
    RTVIServerResponseFrame,
)
from pipecat.serializers.protobuf import ProtobufFrameSerializer
from pipecat.transports.websocket.server import SingleClientWebsocketServerParams, SingleClientWebsocketServerTransport
from pipecat.workers.runner import WorkerRunner

logger.remove()

RATE = 24_000
LOUD = 104
"""-50 dBFS, the engine's own bound of speech."""
SECONDS_A_WORD = 0.12


@dataclass(frozen=True)
class Line:
    """What a bot says in one go; `exit` ends the conversation after it, `dies` ends the pipeline in the middle of it."""

    sentences: tuple[str, ...]
    exit: str | None = None
    tokens: tuple[int, int] = (100, 20)
    dies: Literal["", "cancelled", "ended"] = ""


@dataclass(frozen=True)
class Manners:
    """How the stand-in's services behave.

    `text`: "before stop" is Pipecat's base class for services without word times; "after stop" are services that end each sentence's
    audio themselves; "words" are services with word times. `stops`: after each sentence, once a reply, or not at all: then the
    transport's own time-out of 3 s does. `sound`: frames of a TTS, or of a speech-to-speech model. `streams`: silence all day.
    """

    text: Literal["before stop", "after stop", "words"] = "before stop"
    stops: Literal["sentence", "reply", "never"] = "sentence"
    thinks: float = 0.3
    hang_over: float = 0.4
    ready_twice: bool = False
    sound: Literal["tts", "speech"] = "tts"
    rate: int = RATE
    streams: bool = False
    errs: bool = False
    """Reports an error of a service in each line."""
    barges_in_after: float | None = None
    """Speaks its second line when it has heard this much (s), whether the other has finished or not."""
    replies: dict[str, Any] = field(default_factory=dict)


@dataclass
class Truth:
    """What the bot measured: the answer times (s) from the last loud frame heard to its first own audio."""

    answers: list[float] = field(default_factory=list)
    interruptions: int = 0
    requests: list[str] = field(default_factory=list)


class StandIn(FrameProcessor):
    """Ears, language model and voice in one processor."""

    def __init__(self, lines: tuple[Line, ...], manners: Manners, truth: Truth) -> None:
        super().__init__(name="StandIn")
        self._lines = lines
        self._manners = manners
        self._truth = truth
        self._said = 0
        self._context: list[dict[str, str]] = []
        self._last_loud: float | None = None
        self._first_loud: float | None = None
        self._loud_seconds = 0.0
        self._speaking: asyncio.Task[None] | None = None
        self.worker: PipelineWorker | None = None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, InputAudioRawFrame):
            await self._hear(frame)
            return
        await self.push_frame(frame, direction)
        if isinstance(frame, LLMMessagesAppendFrame):
            self._context += [dict(each) for each in frame.messages]
            if frame.run_llm:
                self._say_next(None)
        elif isinstance(frame, InterruptionFrame) and direction is FrameDirection.DOWNSTREAM:
            await self._fall_silent()
        elif isinstance(frame, RTVIClientMessageFrame):
            await self._answer(frame)
        elif isinstance(frame, EndFrame | StartFrame):
            await self._fall_silent()

    async def _answer(self, request: RTVIClientMessageFrame) -> None:
        self._truth.requests.append(request.type)
        if request.type == "reset":
            await self._fall_silent()
            self._said, self._context, self._first_loud, self._last_loud = 0, [], None, None
        results: dict[str, Any] = {
            "reset": True,
            "update_system_prompt": True,
            "apply_initialization": {"success": True, "errors": []},
            "get_context_history": {"context": str(self._context)},
            "get_scenario_summary": {"actions": [], "db_hash": None},
            **self._manners.replies,
        }
        if request.type in results:
            await self.push_frame(RTVIServerResponseFrame(client_msg=request, data=results[request.type]))
        else:
            await self.push_frame(RTVIServerResponseFrame(client_msg=request, error=f"unknown message type: {request.type}"))

    async def _hear(self, frame: InputAudioRawFrame) -> None:
        now = time.monotonic()
        loud = bool(np.abs(np.frombuffer(frame.audio, dtype="<i2").astype(np.int32)).max(initial=0) > LOUD)
        if loud:
            self._last_loud = now
            if self._first_loud is None:
                self._first_loud = now
                self._truth.interruptions += self._is_speaking
                await self.broadcast_interruption()  # as Pipecat's own aggregator does at the start of every user turn
                await self._fall_silent()
                await self.broadcast_frame(UserStartedSpeakingFrame)
            barge = self._manners.barges_in_after
            if barge is not None and self._said == 0 and now - self._first_loud >= barge:
                self._say_next(None)
        elif self._last_loud is not None and self._first_loud is not None and now - self._last_loud >= self._manners.hang_over:
            self._first_loud = None
            await self.broadcast_frame(UserStoppedSpeakingFrame)
            if not self._is_speaking:
                self._say_next(self._last_loud)

    @property
    def _is_speaking(self) -> bool:
        return self._speaking is not None and not self._speaking.done()

    def _say_next(self, heard: float | None) -> None:
        if self._said < len(self._lines):
            line = self._lines[self._said]
            self._said += 1
            self._speaking = asyncio.create_task(self._say(line, heard))

    async def _fall_silent(self) -> None:
        if self._speaking is not None and self._speaking is not asyncio.current_task():
            self._speaking.cancel()
            await asyncio.gather(self._speaking, return_exceptions=True)

    async def _say(self, line: Line, heard: float | None) -> None:
        await asyncio.sleep(self._manners.thinks)
        await self.push_frame(LLMFullResponseStartFrame())
        await self.push_frame(
            MetricsFrame(data=[TTFBMetricsData(processor="StandInLLM", model="none", value=self._manners.thinks)])
        )
        usage = LLMTokenUsage(
            prompt_tokens=line.tokens[0], completion_tokens=line.tokens[1], total_tokens=sum(line.tokens), cache_read_input_tokens=7
        )
        await self.push_frame(MetricsFrame(data=[LLMUsageMetricsData(processor="StandInLLM", model="none", value=usage)]))
        await self.push_frame(LLMFullResponseEndFrame())
        if self._manners.errs:
            await self.push_error("the service is tired")
        clock, spoken = 0, 0.0
        for index, sentence in enumerate(line.sentences):
            announced = AggregatedTextFrame(sentence, "sentence")
            announced.append_to_context = False
            announced.will_be_spoken = True
            await self.push_frame(announced)
            if not index or self._manners.stops == "sentence":
                await self.push_frame(TTSStartedFrame())
            if not index and heard is not None:
                self._truth.answers.append(time.monotonic() - heard)
            if not index:
                clock = self.get_clock().get_time()
            seconds = await self._speak(sentence, index, clock + int(spoken * 1e9))
            last = index == len(line.sentences) - 1
            if self._manners.text == "before stop":
                await self._tell(sentence, "sentence")
            if self._manners.stops == "sentence" or (last and self._manners.stops == "reply"):
                await self.push_frame(TTSStoppedFrame())
            if self._manners.text == "after stop":
                await self._tell(sentence, "sentence")
            await self.push_frame(MetricsFrame(data=[TTSUsageMetricsData(processor="StandInTTS", value=len(sentence))]))
            spoken += seconds
        if line.dies and self.worker is not None:
            await asyncio.sleep(spoken / 2)
            await (self.worker.cancel() if line.dies == "cancelled" else self.worker.end())
            return
        await asyncio.sleep(spoken)
        self._context.append({"role": "assistant", "content": " ".join(line.sentences)})
        if line.exit is not None:
            await asyncio.sleep(0.2)
            await self.push_frame(RTVIServerMessageFrame(data={"text": f"<exit>{line.exit}</exit>"}))

    async def _speak(self, sentence: str, index: int, clock: int) -> float:
        words = sentence.split()
        sound = tone(SECONDS_A_WORD * len(words), 180.0 + 40.0 * index)
        pcm = sound.tobytes()
        for start in range(0, len(pcm), 4096):
            kind = TTSAudioRawFrame if self._manners.sound == "tts" else SpeechOutputAudioRawFrame
            await self.push_frame(kind(audio=pcm[start : start + 4096], sample_rate=RATE, num_channels=1))
        if self._manners.text == "words":
            for number, word in enumerate(words):
                await self._tell(word, "word", clock + int(number * SECONDS_A_WORD * 1e9) + 1)
        return len(sound) / RATE

    async def _tell(self, text: str, kind: str, pts: int | None = None) -> None:
        spoken = TTSTextFrame(text, kind)
        spoken.will_be_spoken = True
        spoken.pts = pts
        await self.push_frame(spoken)


def tone(seconds: float, hertz: float) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Something like speech: a hum that swells four times a second and never falls silent."""
    at = np.arange(round(seconds * RATE)) / RATE
    swell = 0.6 + 0.4 * np.sin(2 * np.pi * 4 * at)
    return (8000 * swell * np.sin(2 * np.pi * hertz * at)).astype("<i2")


class Silence(BaseAudioMixer):
    """A mixer that adds nothing: the transport then sends audio without a pause."""

    async def start(self, sample_rate: int) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def process_frame(self, frame: Any) -> None:
        pass

    async def mix(self, audio: bytes) -> bytes:
        return audio


class PipecatBot:
    """One bot, on a free port inside its `async with` block. After a pipeline that died nothing listens there any more."""

    def __init__(self, *lines: Line, **manners: Any) -> None:
        self.truth = Truth()
        self.manners = Manners(**manners)
        self._lines = lines
        self._port = _free_port()
        self._running: asyncio.Task[None] | None = None
        self._runner: WorkerRunner | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}"

    async def __aenter__(self) -> PipecatBot:
        transport = SingleClientWebsocketServerTransport(
            SingleClientWebsocketServerParams(
                audio_in_enabled=True,
                audio_out_enabled=True,
                audio_out_end_silence_secs=0,
                audio_out_mixer=Silence() if self.manners.streams else None,
                serializer=ProtobufFrameSerializer(),
            ),
            host="127.0.0.1",
            port=self._port,
        )
        stand_in = StandIn(self._lines, self.manners, self.truth)
        worker = PipelineWorker(
            Pipeline([transport.input(), stand_in, transport.output()]),
            params=PipelineParams(
                audio_in_sample_rate=16_000, audio_out_sample_rate=self.manners.rate, enable_metrics=True, enable_usage_metrics=True
            ),
            rtvi_observer_params=RTVIObserverParams(),
            idle_timeout_secs=None,
        )
        stand_in.worker = worker
        listening = asyncio.Event()

        @transport.event_handler("on_websocket_ready")
        async def on_ready(_transport: Any) -> None:
            listening.set()

        if self.manners.ready_twice:

            @worker.rtvi.event_handler("on_client_ready")
            async def on_client_ready(rtvi: Any) -> None:
                await rtvi.set_bot_ready()

        self._runner = WorkerRunner(handle_sigint=False)
        await self._runner.add_workers(worker)
        self._running = asyncio.create_task(self._runner.run())
        await asyncio.wait_for(listening.wait(), 10.0)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._runner is not None
        assert self._running is not None
        await self._runner.cancel()
        await asyncio.wait_for(self._running, 10.0)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
