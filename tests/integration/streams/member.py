"""A member of a stream application as a process of its own, to be killed or paused.

Arguments: the bootstrap addresses, and as JSON what `counting` takes and the settings of `Streams`. Prints a
JSON line for all that becomes of its tasks, and one for each question on its standard input (`Asked`).
It leaves on SIGTERM: `left` says whether everything was handed over.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from itertools import count
from typing import Any

import uvloop

from strandline.adapters.system.clock import SystemClock
from strandline.streams import Record, Streams
from strandline_lab.simulation.workloads.counting.topology import counting
from tests.waiting import looking

TOLD_EVERY_LOOKS = 10
"""Looks between two reports of lags, which change all the time; roles are reported at once."""


def emit(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, "at": SystemClock().monotonic(), **facts}), flush=True)


class Watch:
    """Reports the running and learned tasks, and the lag of their counts."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._behind_ms = -1
        self._roles: dict[str, str] = {}
        self._looks = count(1)

    def counted(self, record: Record[str, str]) -> None:
        self._behind_ms = max(self._behind_ms, self._clock.wall_ms() - record.timestamp_ms)

    def look(self, app: Streams) -> None:
        tasks = {str(status.task): status for status in app.tasks()}
        roles = {task: status.role for task, status in tasks.items()}
        lags = {task: status.lag for task, status in tasks.items()}
        regular = next(self._looks) % TOLD_EVERY_LOOKS == 0
        if roles != self._roles or (regular and set(roles.values()) - {"running"}):
            self._roles = roles
            emit("tasks", roles=roles, lags=lags)
        if regular and self._behind_ms >= 0:
            emit("behind", ms=self._behind_ms)
            self._behind_ms = -1


def answer(app: Streams, question: dict[str, Any]) -> Any:
    """Raises the store's exceptions."""
    store = app.store(question["store"])
    match question["ask"]:
        case "get":
            return store.get(question["key"])
        case "range":
            return list(store.range(question["start"], question["end"]))
        case "owner":
            owner = store.owner(question["key"])
            return {"server": owner.application_server, "task": str(owner.task), "here": owner.here}
    raise AssertionError(question)


async def answers(app: Streams) -> None:
    """A line for each question, until the input ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        question = json.loads(line)
        try:
            emit("answer", number=question["number"], answer=answer(app, question))
        except Exception as error:
            emit("answer", number=question["number"], error=repr(error))


async def leave(app: Streams, watch: Watch, asked: asyncio.Event) -> None:
    _ = await asked.wait()
    emit("leaving")
    left = await app.leave()
    watch.look(app)
    emit("left", all=left)


async def main(bootstrap: str, topology: dict[str, Any], settings: dict[str, Any]) -> None:
    watch = Watch()
    app = Streams(counting(**topology, look=watch.counted), bootstrap, **settings)
    asked_to_leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_leave.set)

    async def look() -> None:
        watch.look(app)

    async with app, looking(look), asyncio.TaskGroup() as tasks:
        emit("started")
        answering = tasks.create_task(answers(app))
        leaving = tasks.create_task(leave(app, watch, asked_to_leave))
        await app.wait()
        _ = answering.cancel()
        if not asked_to_leave.is_set():
            _ = leaving.cancel()
    emit("closed")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    uvloop.run(main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])))
