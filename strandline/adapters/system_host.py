"""This machine as a `Host`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import SystemRandom
from typing import ParamSpec, TypeVar
from uuid import uuid4

from strandline.adapters.rpc.blocking import GrpcBlockingTransport
from strandline.adapters.rpc.logins.of_client import ClientLogin
from strandline.adapters.rpc.logins.refusals import Refusals
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.tls.peers import to_every_address
from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.config.client import ClientSettings
from strandline.config.login import LoginSettings
from strandline.config.security import ENCRYPTED, PLAINTEXT
from strandline.errors import SettingsError
from strandline.host import Host

P = ParamSpec("P")
T = TypeVar("T")


class SystemThreads:
    """`Threads` of the event loop's own pool."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)


def system_host(settings: LoginSettings | None = None) -> Host:
    """The host of a client whose connections have these settings; None: they are in plaintext.

    Raises SettingsError for certificates, a key or a password that cannot be used.
    """
    clock = SystemClock()
    pem = login = None
    if settings is not None and settings.security_protocol in ENCRYPTED:
        pem = ReloadedPem(settings, clock)
    client_id = settings.client_id if isinstance(settings, ClientSettings) else ""
    refusals = None
    if settings is not None:
        login = ClientLogin.of(settings, new_id, clock)
        refusals = Refusals(settings.authentication_retry_ms / 1000)
    return Host(
        clock=clock,
        files=SYSTEM_FILES,
        threads=SystemThreads(),
        new_id=new_id,
        random=SystemRandom(),
        transport=lambda key: GrpcTransport(
            key, to_every_address(pem), login=login, client_id=client_id, refusals=refusals
        ),
        blocking_transport=lambda: GrpcBlockingTransport(to_every_address(pem), login, refusals),
    )


def client_host(settings: LoginSettings, given: Host | None) -> Host:
    """The host that was given to a client, or one for its settings. Raises SettingsError.

    The connections of a given host are as it was made: settings that would be ignored are refused.
    """
    if given is None:
        return system_host(settings)
    if settings.security_protocol != PLAINTEXT:
        raise SettingsError(
            "setting security_protocol: it belongs to the host that was given, which opens the connections"
        )
    return given


def new_id() -> str:
    return uuid4().hex
