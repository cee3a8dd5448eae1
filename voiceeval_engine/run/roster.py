"""The pairs that `--pairs-from` names, which come and go while the run goes on: a worker for each that is there.

May import lower floors and this folder's `backlog`, `pairs_file`, `records` and `worker`. Rules: running page, "Commands" and "The fuse,
per pair".
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from pathlib import Path

from voiceeval_engine.bridge.setup import Pair
from voiceeval_engine.live import events
from voiceeval_engine.run.logs import TOLD
from voiceeval_engine.run.options import place
from voiceeval_engine.run.pairs_file import Listed, read_pairs
from voiceeval_engine.run.records import Records
from voiceeval_engine.run.worker import Worker

LOOK_SECONDS = 1.0
MOST_TOLD = 20
"""Bad lines told of one reading."""


class Roster:
    """Reads the file once a second. A pair keeps its number when it leaves and comes back; its bots serve one worker at a time."""

    def __init__(self, records: Records, file: Path, total: int) -> None:
        """`total` is the length of the run's queue."""
        self._records = records
        self._backlog = records.backlog
        self._file = file
        self._total = total
        self._known: dict[tuple[str, str], Pair] = {}
        self._listed: frozenset[tuple[str, str]] = frozenset()
        self._told: frozenset[str] = frozenset()
        self._workers: dict[Pair, Worker] = {}

    async def first(self) -> list[Pair]:
        """The pairs that the run begins with, numbered in the file's order. Call it once, before `serve`."""
        listed = await self._read()
        for urls in listed.pairs:
            self._number(urls)
        self._listed = frozenset(listed.pairs)
        return list(self._known.values())

    async def serve(self) -> None:
        """Until the run is over. A worker's unexpected fault is told and lets no further attempt begin."""
        async with asyncio.TaskGroup() as group:
            for pair in self._known.values():
                self._start(group, pair)
            while not self._backlog.over:
                self._come_and_go(group)
                without = self._backlog.without_pairs()
                left = math.inf if without is None else self._records.shop.options.backend_wait - without
                if left <= 0:
                    self._backlog.close_without_pairs(self._records.shop.options.backend_wait)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(LOOK_SECONDS, left)):
                        await self._backlog.until_over()
                await self.look()

    async def look(self) -> None:
        """Read the file now; pairs that are not in it any more have left when this returns."""
        listed = await self._read()
        self._listed = frozenset(listed.pairs)
        for pair, worker in self._workers.items():
            if (pair.agent_url, pair.user_url) not in self._listed and not worker.left:
                self._log_and_emit(pair, "pair %d has left: agent %s, user %s", events.PairLeft(pair=pair.number))
                worker.leave()

    def _come_and_go(self, group: asyncio.TaskGroup) -> None:
        """Let what is listed serve; a bot that a pair which left still talks to is waited for."""
        for urls in sorted(self._listed, key=lambda each: self._known[each].number if each in self._known else len(self._known)):
            pair = self._known.get(urls)
            worker = None if pair is None else self._workers.get(pair)
            if worker is not None:
                if worker.left:
                    worker.stay()
                    self._tell_came(worker.pair)
            elif not self._is_busy(urls):
                pair = self._number(urls)
                self._tell_came(pair)
                self._start(group, pair)

    def _is_busy(self, urls: tuple[str, str]) -> bool:
        wanted = {place(url) for url in urls}
        return any(wanted & {place(pair.agent_url), place(pair.user_url)} for pair in self._workers)

    def _number(self, urls: tuple[str, str]) -> Pair:
        return self._known.setdefault(urls, Pair(len(self._known), *urls))

    def _start(self, group: asyncio.TaskGroup, pair: Pair) -> None:
        worker = self._workers[pair] = Worker(self._records, pair, self._total, self.look)
        self._backlog.pair_back(pair.number)
        group.create_task(self._serve(worker), name="worker")

    async def _serve(self, worker: Worker) -> None:
        try:
            await worker.serve()
        except Exception:
            self._records.log.exception("pair %d met an unexpected fault", worker.pair.number + 1)
            self._backlog.close("an unexpected fault")
        finally:
            del self._workers[worker.pair]
            self._backlog.pair_gone(worker.pair.number)

    def _tell_came(self, pair: Pair) -> None:
        urls = self._records.clean(pair.agent_url), self._records.clean(pair.user_url)
        self._log_and_emit(pair, "pair %d comes: agent %s, user %s", events.PairCame(pair=pair.number, urls=urls))

    def _log_and_emit(self, pair: Pair, what: str, event: events.Event) -> None:
        clean = self._records.clean
        self._records.log.info(what, pair.number + 1, clean(pair.agent_url), clean(pair.user_url), extra=TOLD)
        self._records.shop.emit(event)

    async def _read(self) -> Listed:
        listed = await self._records.shop.offload.run(0, read_pairs, self._file)
        fresh = [line for line in listed.bad if line not in self._told]
        for line in fresh[:MOST_TOLD]:
            self._records.log.warning("--pairs-from %s: %s", self._file, self._records.clean(line))
        if fresh[MOST_TOLD:]:
            self._records.log.warning("--pairs-from %s: %d more such lines", self._file, len(fresh) - MOST_TOLD)
        self._told = frozenset(listed.bad)
        return listed
