"""Who makes room where callers share a bounded number of places, and what counts as one caller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.adapters.rpc.server.held_calls import HeldCalls, TooManyCalls
from strandline.adapters.system.accepting.connection_count import ConnectionCount
from strandline.broker.core.groups.state_bytes import PendingMember
from strandline.broker.log.fetch_budget import FetchBudget
from strandline.console.core.attempts import Attempts as ConsoleAttempts
from strandline.console.core.places import Places
from strandline.room import one_host
from strandline.security.login.attempts import FAILURES_MAX, Attempts

HOST = "2001:db8:0:7::1"
SAME_HOST = "2001:db8:0:7:ffff::2"
OTHER_HOST = "2001:db8:0:8::1"


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        (HOST, "2001:db8:0:7::/64"),
        (SAME_HOST.upper(), "2001:db8:0:7::/64"),
        (OTHER_HOST, "2001:db8:0:8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::FFFF:c000:207", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("unix:/run/socket", "unix:/run/socket"),
        ("", ""),
    ],
)
def test_a_host_with_ipv6_has_a_network_of_addresses(address: str, counted: str) -> None:
    assert one_host(address) == counted


def calls(first: str, second: str) -> bool:
    held = HeldCalls(1)
    with held.one(first):
        try:
            with held.one(second):
                return False
        except TooManyCalls:
            return True


def connections(first: str, second: str) -> bool:
    count = ConnectionCount()
    with count.one(first):
        return count.of(second) > 0


def fetches(first: str, second: str) -> bool:
    budget = FetchBudget(of_one=10, of_all=10)
    assert budget.take_now(f"ipv6:%5B{first}%5D:5000", 10)
    return not budget.take_now(f"ipv6:%5B{second}%5D:5001", 10)


def places(first: str, second: str) -> bool:
    shared = Places(2, 1)
    with shared.taken(first):
        return shared.missing(second) is not None


def login_failures(first: str, second: str) -> bool:
    attempts = Attempts()
    for _ in range(FAILURES_MAX):
        attempts.failed(first, 0.0)
    return attempts.begin(second, 0.0) > 0


def console_failures(first: str, second: str) -> bool:
    attempts = ConsoleAttempts(1)
    attempts.failed(first, 0.0)
    return not attempts.are_left(second, 0.0)


def unused_member_ids(first: str, second: str) -> bool:
    return PendingMember(None, first).caller == PendingMember(None, second).caller


@pytest.mark.parametrize(
    "takes_the_place_of",
    [calls, connections, fetches, places, login_failures, console_failures, unused_member_ids],
)
def test_bounds_for_one_address_count_a_host_once(takes_the_place_of: Callable[[str, str], bool]) -> None:
    """With a new address each time, one host with IPv6 had the places of all."""
    assert takes_the_place_of(HOST, SAME_HOST)
    assert not takes_the_place_of(HOST, OTHER_HOST)
