"""A process that watches another one: how long it keeps a small question waiting, and what memory it takes.

`python -m tests.integration.hostile.support.stall_probe ADDRESS PID [CAFILE CERTFILE KEYFILE]` asks for the
health of the service at the address, again and again, in plaintext or with a certificate. For each line on
its input it prints, as JSON, the worst since the last one, and begins anew.

A wait is measured by the processor time that the watched process spends during it: on a busy machine it lasts
longer than that.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

ASK_EVERY_S = 0.01
ANSWER_S_MAX = 60.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def memory_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def channel_to(address: str, files: Sequence[str]) -> grpc.Channel:
    if not files:
        return grpc.insecure_channel(address)
    authorities, chain, key = (Path(file).read_bytes() for file in files)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(authorities, key, chain))


class Probe:
    def __init__(self, channel: grpc.Channel, pid: int) -> None:
        self._health = health_pb2_grpc.HealthStub(channel)
        self._pid = pid
        self._stall_s = 0.0
        self._memory_bytes = 0
        self._asked = threading.Event()

    def run(self) -> None:
        """Ask until the process ends."""
        pause = threading.Event()
        while True:
            before = cpu_s(self._pid)
            self._health.Check(health_pb2.HealthCheckRequest(), timeout=ANSWER_S_MAX)
            self._stall_s = max(self._stall_s, cpu_s(self._pid) - before)
            self._memory_bytes = max(self._memory_bytes, memory_bytes(self._pid))
            self._asked.set()
            pause.wait(ASK_EVERY_S)

    def worst(self) -> dict[str, float]:
        """Since the last call, with at least one whole answer in it."""
        self._asked.clear()
        self._asked.wait(ANSWER_S_MAX)
        found = {"stall_s": self._stall_s, "memory_bytes": self._memory_bytes}
        self._stall_s, self._memory_bytes = 0.0, 0
        return found


if __name__ == "__main__":
    probe = Probe(channel_to(sys.argv[1], sys.argv[3:]), int(sys.argv[2]))
    threading.Thread(target=probe.run, daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(probe.worst()), flush=True)
