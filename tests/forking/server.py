"""Forks Python programs out of a process that has imported their modules already.

`python -m tests.forking.server`, with a socket as its standard input and output. A start takes milliseconds
instead of half a second of imports, and is in all else as an own interpreter's: descriptors, environment,
signals and exit status are the program's own.

A packet is a request, a JSON object, and each has one answer, a number. `fork`: the module to run, with its
arguments, environment and folder; its standard streams come with the packet; the answer is the pid. `reap`: a
pid that has ended; the answer is its wait status. The server ends with the process that started it, and its
programs with the server.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import runpy
import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import strandline
from strandline.local.die_with_parent import die_with

REQUEST_BYTES_MAX: Final = 1 << 17
STREAMS: Final = 3
LEFT_OUT: Final = ("strandline.pipeline",)
"""Spark: heavy, and no broker's, controller's or member's."""
OTHERS: Final = (
    "strandline_lab.simulation.workloads.counting.topology",
    "tests.waiting",
    "uvloop",
    "prometheus_client",
    "rich.console",
)
"""Modules that programs import besides strandline's own, some of them late."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a child runs once it has left the server's loop."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str

    def run(self) -> None:
        """As `python -m` does. Raises SystemExit."""
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        sys.argv = [self.module, *self.arguments]
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def modules() -> Iterator[str]:
    """The modules to import. No program's own `__main__` is among them: it runs anew in each child."""
    yield from OTHERS
    yield from modules_below("strandline", strandline.__path__)
    yield "strandline.cli.__main__"
    yield "strandline_lab.cli.__main__"


def modules_below(package: str, path: Iterable[str]) -> Iterator[str]:
    for found in pkgutil.iter_modules(path, f"{package}."):
        if found.name in LEFT_OUT or found.name.endswith(".__main__"):
            continue
        yield found.name
        if found.ispkg:
            yield from modules_below(found.name, import_module(found.name).__path__)


def serve(channel: socket.socket) -> Program | None:
    """Answer requests until the other end is gone; in a child, return the program that it is to run."""
    while True:
        packet, streams, _, _ = socket.recv_fds(channel, REQUEST_BYTES_MAX, STREAMS)
        if not packet:
            return None
        request: dict[str, Any] = json.loads(packet)
        if "reap" in request:
            _, answer = os.waitpid(request["reap"], 0)
        else:
            server = os.getpid()
            answer = os.fork()
            if answer == 0:
                die_with(server)
                channel.close()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                return Program(**request["fork"])
            for stream in streams:
                os.close(stream)
        channel.send(str(answer).encode())


def main() -> None:
    for module in modules():
        import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page that it shares with the server
    channel = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    program = serve(channel)
    if program is not None:
        program.run()


if __name__ == "__main__":
    main()
