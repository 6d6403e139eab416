"""Names of servers are resolved again for each attempt to connect, and never for long (CORRECTNESS E11)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence

import pytest

from strandline.adapters.zookeeper.connection.addresses import ServerAddress, ServerAddresses
from tests.waiting import eventually


class Resolver:
    """Answers with one address a name, once it may."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked = 0

    def resolve(self, name: str, _port: int) -> Sequence[str]:
        self.asked += 1
        self.may_answer.wait()
        if name not in self.names:
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return [self.names[name]]


@pytest.fixture
def resolver() -> Iterator[Resolver]:
    resolver = Resolver()
    yield resolver
    resolver.may_answer.set()


def test_each_attempt_resolves_again(resolver: Resolver) -> None:
    """A server that was started again may have another address."""
    addresses = ServerAddresses([("zk", 2181)], resolver.resolve)
    for address in ("10.0.0.1", "10.0.0.2"):
        resolver.names = {"zk": address}
        assert addresses.current() == [ServerAddress("zk", address, 2181)]


def test_a_name_that_does_not_resolve_keeps_its_address(resolver: Resolver) -> None:
    addresses = ServerAddresses([("a", 1), ("b", 2)], resolver.resolve)
    assert addresses.current() == []
    resolver.names = {"a": "10.0.0.1", "b": "10.0.0.2"}
    assert sorted(addresses.current()) == [("a", "10.0.0.1", 1), ("b", "10.0.0.2", 2)]
    resolver.names = {"b": "10.0.0.3"}
    assert sorted(addresses.current()) == [("a", "10.0.0.1", 1), ("b", "10.0.0.3", 2)]


async def test_a_silent_resolver_is_waited_for_by_one_thread_only(resolver: Resolver) -> None:
    """The addresses of before are used meanwhile, and its answer counts when it comes."""
    resolver.names = {"zk": "10.0.0.1"}
    addresses = ServerAddresses([("zk", 2181)], resolver.resolve)
    addresses.current()
    resolver.may_answer.clear()
    for _ in range(3):
        assert addresses.current() == [ServerAddress("zk", "10.0.0.1", 2181)]
    assert resolver.asked == 2
    resolver.names = {"zk": "10.0.0.2"}
    resolver.may_answer.set()
    await eventually(lambda: addresses.current() == [ServerAddress("zk", "10.0.0.2", 2181)])
