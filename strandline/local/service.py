"""A broker or a controller as a process: how to start it, and when it serves."""

from __future__ import annotations

import asyncio
import os
import signal
import site
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import strandline
from strandline.adapters.tls.grpc_credentials import open_channel
from strandline.adapters.tls.pem import Pem, read_pem
from strandline.config.load import load, variable_of
from strandline.config.security import ENCRYPTED
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.constants import constants_of
from strandline.config.services.controller import ControllerSettings
from strandline.errors import SettingsError
from strandline.local.layout import MemberFile
from strandline.local.ports import LOOPBACK
from strandline.local.process import Process, Spawn

SERVING_POLL_S: Final = 0.01
HEALTH_TIMEOUT_S: Final = 1.0
STOP_S_MAX: Final = 15.0
"""Limit for a clean end; a broker waits at most `handover_ms` for its leaderships to be taken over."""

MALLOC: Final = {"MALLOC_MMAP_THRESHOLD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "268435456"}
"""glibc keeps freed memory: large messages become two to four times faster. Only one of the two is
worse than none."""

_KINDS: Final[Mapping[str, type[BrokerSettings] | type[ControllerSettings]]] = {
    "broker": BrokerSettings,
    "controller": ControllerSettings,
}


class Service:
    """One broker or controller. `kind` is also the name of its package, `python -m strandline.broker`."""

    def __init__(
        self,
        kind: str,
        member: MemberFile,
        fixed: Mapping[str, Any],
        *,
        log_path: Path,
        detached: bool,
        spawn: Spawn = Process.spawn,
    ) -> None:
        """`fixed` are the settings that only the cluster knows."""
        self.kind = kind
        self._fixed = fixed
        self.member = member
        self.log_path = log_path
        self.process: Process | None = None
        self._detached = detached
        self._spawn = spawn
        self._loaded: BrokerSettings | ControllerSettings | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.member.id}"

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.member.port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    def find(self) -> None:
        """Find the process that the cluster's file names, if it is still running."""
        wanted = self.member.process_id
        if wanted is not None:
            self.process = Process.find(self.name, wanted, log_path=self.log_path)

    def start(self) -> None:
        """Start the process.

        Raises SettingsError for a setting that the service would refuse, instead of leaving it to
        the service's log.
        """
        settings = self._settings()
        self._loaded = load(_KINDS[self.kind], **settings)
        constants = constants_of(_KINDS[self.kind])
        environment = {variable_of(name, constants): value for name, value in settings.items()}
        self.process = self._spawn(
            self.name,
            [sys.executable, "-m", f"strandline.{self.kind}"],
            log_path=self.log_path,
            environment={**os.environ, **MALLOC, **python_path(), **environment},
            detached=self._detached,
        )

    def _settings(self) -> dict[str, str]:
        return {
            **self.member.settings,
            **as_environment(self.kind, self._fixed),
            f"{self.kind}_id": str(self.member.id),
            "port": str(self.member.port),
            **self._other_ports(),
        }

    def _other_ports(self) -> dict[str, str]:
        ports = {"metrics_port": self.member.metrics_port, "kafka_port": self.member.kafka_port}
        return {name: str(port) for name, port in ports.items() if port is not None}

    async def wait_serving(self) -> None:
        """Return once its health service reports SERVING. Raises ProcessFailed if it dies before.

        Another process on its port does not count: then this one will fail.
        """
        while True:
            healthy = await self.serves()
            if self.process is None or not self.process.alive:
                raise self._died()
            if healthy and self.process.listens(self.member.port):
                return
            await asyncio.sleep(SERVING_POLL_S)

    async def serves(self) -> bool:
        """Query the standard gRPC health service once."""
        if not await self._listens():  # checked first, because gRPC would wait before it connects again
            return False
        async with open_channel(self.address, self._pem(), ()) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=HEALTH_TIMEOUT_S)
            except grpc.aio.AioRpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def _pem(self) -> Pem | None:
        """The certificate with which its health is asked for is its own."""
        if self._loaded is None:
            self._loaded = load(_KINDS[self.kind], **self._settings())
        return read_pem(self._loaded) if self._loaded.security_protocol in ENCRYPTED else None

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, self.member.port)
        except OSError:
            return False
        writer.close()
        return True

    def _died(self) -> Exception:
        if self.process is None:
            return SettingsError(f"{self.name} was not started")
        return self.process.failure("died before it served")

    async def stop(self, *, clean: bool) -> None:
        """SIGTERM (SIGKILL if it takes too long), or SIGKILL at once; waits until it has exited."""
        if self.process is not None:
            await self.process.stop(clean=clean, timeout_s=STOP_S_MAX)
            self.process = None

    def pause(self) -> None:
        """Suspend it: it answers nothing and closes nothing."""
        if self.process is not None:
            self.process.send(signal.SIGSTOP)

    def resume(self) -> None:
        if self.process is not None:
            self.process.send(signal.SIGCONT)


def as_environment(kind: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as text. Raises SettingsError for a name that `kind` does not have."""
    known = _KINDS[kind].model_fields
    for name in settings:
        if name not in known:
            names = sorted(known.keys() - constants_of(_KINDS[kind]).keys())
            raise SettingsError(f"a {kind} has no setting {name!r}; it has {', '.join(names)}")
    return {name: _as_text(value) for name, value in settings.items() if value is not None}


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def python_path() -> dict[str, str]:
    """The path with which a child finds the packages of a checkout; installed ones need none."""
    root = str(Path(strandline.__file__).parents[1])
    if root in site.getsitepackages():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
