"""Thousands of agents in one process: each keeps one connection, reports once, and waits for work with the pauses of `cantle.agent`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import time
from collections.abc import Awaitable, Callable

import msgspec
from tests.unit.engine.cloud import t4

from cantle.agent.backoff import Backoff
from cantle.wire.inventory import InventoryReport

#: Seconds that one call waits for work; an agent's own are 60, less the time since its last look.
WAITS = (45.0, 60.0)


class Agent:
    """One host's connection.

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
        self.generation: int | None = None
        #: Calls that were answered, and when it was last answered at all.
        self.answers = 0
        self.answered_at = 0.0

    async def live(self) -> None:
        """Report, then wait for work for ever; after a failure, again from the beginning after a pause."""
        away = Backoff()
        reported = False
        while True:
            try:
                if not reported:
                    await self.report()
                    reported = True
                await self._work()
                away.reset()
            except (OSError, EOFError, ValueError):
                self._hang_up()
                reported = False
                await asyncio.sleep(away.next())

    def again(self) -> Agent:
        """The same agent with a second connection."""
        return Agent(self._port, self.name, self._token, self._heard)

    async def report(self) -> None:
        """The same report as ever."""
        await self._call("PUT", "inventory", self._report)

    async def _work(self) -> None:
        query = "" if self.generation is None else f"?generation={self.generation}&wait={random.uniform(*WAITS):.1f}"  # noqa: S311
        found = json.loads(await self._call("GET", f"work{query}"))["generation"]
        if self.generation is not None and found != self.generation:
            self._heard(self.name)
        self.generation = found

    async def _call(self, method: str, path: str, body: bytes = b"") -> bytes:
        if self._streams is None:
            self._streams = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self._port), 5)
        reader, writer = self._streams
        line = f"{method} /v1/hosts/{self.name}/{path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        writer.write(line.encode() + body)
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 95)).decode("latin-1").lower()
        length = head.partition("content-length: ")[2].partition("\r\n")[0]
        text = await reader.readexactly(int(length or 0))
        if " 200 " not in head.partition("\r\n")[0]:
            raise ValueError(text[:200])
        self.answers += 1
        self.answered_at = time.monotonic()
        return text

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


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
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def answers(self) -> int:
        """Calls of all of them that were answered."""
        return sum(agent.answers for agent in self.agents)

    async def settled(self, since: float, seconds: float = 300.0) -> float:
        """When the last of them was answered for the first time after ``since``, by the clock of `time.monotonic`."""
        end = time.monotonic() + seconds
        while not all(agent.answered_at > since and agent.generation is not None for agent in self.agents):
            if time.monotonic() > end:
                raise SystemExit("bench: not all agents came back")
            await asyncio.sleep(0.1)
        return max(agent.answered_at for agent in self.agents)

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
