"""Thousands of agents in one process: each keeps one connection, reports when `cantle.agent` would, and waits for work as it does."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import time
from collections.abc import Awaitable, Callable

import msgspec
from tests.unit.engine.cloud import t4

from cantle.agent.agent import RESCAN
from cantle.agent.backoff import Backoff
from cantle.agent.client import ANSWER, CONNECT
from cantle.agent.reports import AGAIN
from cantle.wire.inventory import InventoryReport


class Away(Exception):
    """The server did not answer, or asked to be left alone for so many seconds."""

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class Agent:
    """One host's agent, as far as its server sees it.

    :param heard: called with its name when it was given work of another generation.
    """

    def __init__(self, port: int, name: str, token: str, heard: Callable[[str], None]) -> None:
        self._port = port
        self.name = name
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        self._heard = heard
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        devices = (t4(4, host=name),)
        digest = hashlib.sha256(msgspec.json.encode(devices)).hexdigest()
        self._token = token
        self._report = msgspec.json.encode(InventoryReport(f"start-of-{name}", digest, devices))
        self._reported_at: float | None = None
        self.generation: int | None = None
        #: Calls that were answered.
        self.answers = 0

    async def live(self) -> None:
        """Look every `RESCAN` seconds, report if that is due, and wait for work in between; after a failure, again after a pause."""
        away = Backoff()
        look_at = time.monotonic()
        while True:
            try:
                if time.monotonic() >= look_at:
                    # Hosts were not started at one moment.
                    look_at = time.monotonic() + (RESCAN if self.generation is not None else random.uniform(0, RESCAN))  # noqa: S311
                    if self._reported_at is None or time.monotonic() > self._reported_at + AGAIN:
                        first = self.generation is None
                        await self.report()
                        if first:  # nor do they all report at one moment, five minutes later
                            self._reported_at = time.monotonic() - random.uniform(0, AGAIN)  # noqa: S311
                await self._work(max(0.1, look_at - time.monotonic()))
                away.reset()
            except (OSError, EOFError, Away) as error:
                self._hang_up()
                self._reported_at = None
                await asyncio.sleep(away.next(error.seconds if isinstance(error, Away) else 0.0))

    def again(self) -> Agent:
        """The same agent with a second connection."""
        return Agent(self._port, self.name, self._token, self._heard)

    async def report(self) -> None:
        """The same report as ever."""
        await self._call("PUT", "inventory", body=self._report)
        self._reported_at = time.monotonic()

    async def _work(self, seconds: float) -> None:
        if self.generation is None:
            self.generation = json.loads(await self._call("GET", "work"))["generation"]
            return
        asked = f"work?generation={self.generation}&wait={math.ceil(10 * seconds) / 10:.1f}"
        text = await self._call("GET", asked, f'If-None-Match: "{self.generation}"\r\n', seconds=seconds)
        if text:
            self.generation = json.loads(text)["generation"]
            self._heard(self.name)

    async def _call(self, method: str, path: str, head: str = "", body: bytes = b"", seconds: float = 0) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self._port), CONNECT)
        reader, writer = self._streams
        line = (
            f"{method} /v1/hosts/{self.name}/{path} HTTP/1.1\r\n{self._head}{head}Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(line.encode() + body)
        answer = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), seconds + ANSWER)).decode("latin-1").lower()
        text = await reader.readexactly(int(_field(answer, "content-length") or 0))
        status = int(answer.split()[1])
        if status not in (200, 304):
            raise Away(text[:200].decode(), float(_field(answer, "retry-after") or 0))
        if _field(answer, "connection") == "close":
            self._hang_up()
        self.answers += 1
        return text

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def _field(head: str, name: str) -> str:
    return head.partition(f"\r\n{name}: ")[2].partition("\r\n")[0]


class Crowd:
    """All of them. Use it with ``async with``; they live while the block runs."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self._waiting: dict[str, asyncio.Future[float]] = {}
        self.agents = [Agent(port, name, token, self._heard) for name, token in tokens.items()]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Crowd:
        for agent in self.agents:
            self._tasks.append(asyncio.create_task(agent.live()))
            if len(self._tasks) % 50 == 0:
                await asyncio.sleep(0.05)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        left = set(self._tasks)
        while left:  # one that was just answered may miss it (asyncio.wait_for)
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=1)

    def answers(self) -> int:
        """Calls of all of them that were answered."""
        return sum(agent.answers for agent in self.agents)

    async def settled(self, seconds: float = 300.0) -> None:
        """Return when each has reported and knows its work."""
        end = time.monotonic() + seconds
        while any(agent.generation is None for agent in self.agents):
            if time.monotonic() > end:
                raise SystemExit("bench: not all agents came up")
            await asyncio.sleep(0.1)

    async def woken(self, name: str, change: Callable[[], Awaitable[None]]) -> float:
        """Seconds from the beginning of ``change`` until that host's agent has the answer."""
        self._waiting[name] = asyncio.get_running_loop().create_future()
        began = time.monotonic()
        await change()
        return await asyncio.wait_for(self._waiting[name], 30) - began

    def _heard(self, name: str) -> None:
        waiting = self._waiting.get(name)
        if waiting is not None and not waiting.done():
            waiting.set_result(time.monotonic())
