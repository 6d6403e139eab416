"""What an asyncio loop offers that reaches out of a played world: each of it is refused, with the reason."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn


class NotPlayed(NotImplementedError):
    """Code in a played world wants sockets, subprocesses, pipes or signals: there are none."""


class NoOutside(asyncio.AbstractEventLoop):
    """Has the entrances of sockets, subprocesses, pipes and signals, and refuses them with NotPlayed."""

    async def getaddrinfo(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("getaddrinfo")

    async def getnameinfo(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("getnameinfo")

    async def create_connection(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("create_connection")

    async def create_server(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("create_server")

    async def create_unix_connection(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("create_unix_connection")

    async def create_unix_server(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("create_unix_server")

    async def create_datagram_endpoint(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("create_datagram_endpoint")

    async def sock_connect(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("sock_connect")

    async def sock_accept(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("sock_accept")

    async def sock_recv(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("sock_recv")

    async def sock_sendall(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("sock_sendall")

    async def connect_read_pipe(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("connect_read_pipe")

    async def connect_write_pipe(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("connect_write_pipe")

    async def subprocess_exec(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("subprocess_exec")

    async def subprocess_shell(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("subprocess_shell")

    def add_reader(self, fd: object, callback: object, *args: object) -> NoReturn:
        _refuse("add_reader")

    def add_writer(self, fd: object, callback: object, *args: object) -> NoReturn:
        _refuse("add_writer")

    def add_signal_handler(self, sig: object, callback: object, *args: object) -> NoReturn:
        _refuse("add_signal_handler")


def _refuse(name: str) -> NoReturn:
    raise NotPlayed(
        f"{name} is not possible here: this code runs in a played world of strandline, on the event loop of"
        " its cluster, which has no sockets, subprocesses, pipes or signals. Give it something in memory"
        " instead; a MemoryCluster lets the test itself, outside of `application`, use all of these"
    )
