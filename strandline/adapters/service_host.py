"""This machine as a `ServiceHost`: gRPC, ZooKeeper and signals for a broker or a controller."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import NoReturn

from strandline.adapters.rpc.grpc_listener import GrpcListener
from strandline.adapters.rpc.probe import probe
from strandline.adapters.system.byte_server import listen_bytes
from strandline.adapters.system.fail_fast import FailFast
from strandline.adapters.system_host import system_host
from strandline.adapters.zookeeper.connect import connect
from strandline.config.services import ListenerSettings
from strandline.errors import StrandlineError
from strandline.host import ProbeResult, ServiceHost
from strandline.vocabulary.metadata import Endpoint


def service_host() -> ServiceHost:
    machine = system_host()

    def listen(
        settings: ListenerSettings,
        services: Sequence[str],
        *,
        on_answered: Callable[[str, float], None],
        on_refused: Callable[[StrandlineError, str], None],
    ) -> GrpcListener:
        return GrpcListener(settings, services, machine.clock, on_answered, on_refused)

    async def probed(endpoint: Endpoint, timeout_s: float) -> ProbeResult:
        return await probe(endpoint, timeout_s, machine.clock)

    return ServiceHost(
        clock=machine.clock,
        files=machine.files,
        threads=machine.threads,
        new_id=machine.new_id,
        random=machine.random,
        transport=machine.transport,
        blocking_transport=machine.blocking_transport,
        listen=listen,
        connect_coordination=connect,
        probe=probed,
        stop_requested=asyncio.Event(),
        fail_fast=FailFast,
        die=kill_this_process,
        listen_bytes=listen_bytes,
    )


def stop_on_signals(host: ServiceHost) -> None:
    """From now on SIGTERM and SIGINT ask the service on this event loop to stop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, host.stop_requested.set)


def kill_this_process() -> NoReturn:
    while True:
        os.kill(os.getpid(), signal.SIGKILL)
