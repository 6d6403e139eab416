"""How fast an address may make connections, and which of them wait (KIP-612)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.ports import Caller
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.connections import AT_ONCE, ConnectionRates, Turn
from strandline.security.quotas.model import DEFAULT, NO_QUOTAS, Quota, QuotaEntity, Quotas
from tests.hand_clock import HandClock

RATE = Quota.CONNECTION_CREATION_RATE
ONE, OTHER = "192.0.2.1", "192.0.2.2"
DELAY_S_MAX = 5.0
TOO_LATE = Turn(DELAY_S_MAX, served=False)


def limited(buckets_max: int = 100, **limits: float) -> ConnectionRates:
    """`default` is of each address; `one` of ONE."""
    addresses = {"default": DEFAULT, "one": ONE}
    made = ConnectionRates(delay_s_max=DELAY_S_MAX, buckets_max=buckets_max)
    made.take(Quotas({QuotaEntity(ip=addresses[each]): {RATE: limit} for each, limit in limits.items()}))
    return made


def test_without_a_quota_no_connection_waits_and_no_address_is_remembered() -> None:
    rates = limited(one=1)
    assert [rates.arrives(OTHER, 0.0) for _ in range(100)] == [AT_ONCE] * 100
    assert len(rates) == 0


def test_connections_over_the_rate_wait_for_their_turn() -> None:
    rates = limited(one=2)
    assert [rates.arrives(ONE, 0.0).wait_s for _ in range(5)] == [0, 0, 0.5, 1, 1.5]
    assert rates.arrives(ONE, 10.0) == AT_ONCE
    assert rates.throttled_s == 3


def test_one_whose_turn_would_come_too_late_is_closed_late_and_takes_no_turn() -> None:
    """CORRECTNESS X6: those that wait are no more than the rate lets in within the longest wait."""
    rates = limited(one=1)
    turns = [rates.arrives(ONE, 0.0) for _ in range(50)]
    assert [each for each in turns if each.served] == [Turn(float(wait_s)) for wait_s in range(6)]
    assert set(turns[6:]) == {TOO_LATE}
    assert rates.arrives(ONE, 1.0) == Turn(DELAY_S_MAX), "those that were closed are not paid for"


@given(st.lists(st.floats(0, 3), min_size=20, max_size=100), st.integers(1, 20))
def test_an_address_keeps_to_its_rate(pauses_s: list[float], rate: int) -> None:
    """Of those that are served, at most the rate and what a second saves begin by any moment, in their order,
    and none waits longer than the longest wait."""
    rates, now, begun = limited(one=rate), 0.0, list[float]()
    for pause_s in pauses_s:
        now += pause_s / rate
        turn = rates.arrives(ONE, now)
        assert turn.wait_s <= DELAY_S_MAX
        if turn.served:
            begun.append(now + turn.wait_s)
    assert begun == sorted(begun)
    for count, moment in enumerate(begun, 1):
        assert count <= rate * (moment + 1) + 1e-6


def test_an_own_quota_holds_before_the_default_which_is_for_each_address() -> None:
    rates = limited(default=1, one=3)
    assert [rates.arrives(ONE, 0.0).wait_s for _ in range(3)] == [0, 0, 0]
    assert [rates.arrives(each, 0.0).wait_s for each in (OTHER, OTHER, "192.0.2.3")] == [0, 1, 0]


def test_the_addresses_of_a_host_share_the_default_and_not_a_quota_of_one_of_them() -> None:
    """A host of IPv6 takes another address of its network for each connection."""
    rates = limited(default=1)
    waits = [rates.arrives(each, 0.0).wait_s for each in ("2001:db8::1", "2001:db8::2%eth0", "2001:db8:1::")]
    assert waits == [0, 1, 0]
    rates.take(Quotas({QuotaEntity(ip="2001:db8::1"): {RATE: 1}}))
    assert rates.arrives("2001:db8::2", 0.0) == AT_ONCE
    assert [rates.arrives(each, 2.0).wait_s for each in ("2001:DB8::1", "2001:db8:0::1")] == [0, 1]


def test_an_address_of_ipv4_that_is_written_as_ipv6_is_the_same_one() -> None:
    rates = limited(one=1)
    assert rates.arrives(f"::ffff:{ONE}", 0.0).wait_s == 0
    assert rates.arrives(ONE, 0.0).wait_s == 1


def test_another_limit_counts_at_once_and_no_quota_forgets_all() -> None:
    rates = limited(one=1)
    assert [rates.arrives(ONE, 0.0).wait_s for _ in range(3)] == [0, 1, 2]
    rates.take(Quotas({QuotaEntity(ip=ONE): {RATE: 10}}))
    assert rates.arrives(ONE, 0.0) == AT_ONCE
    rates.take(NO_QUOTAS)
    assert rates.arrives(ONE, 0.0) == AT_ONCE
    assert len(rates) == 0


def test_the_number_of_addresses_is_bounded_and_the_one_in_use_stays() -> None:
    """A20: by addresses that were never seen before, no other one gets more than its quota."""
    rates = limited(default=1, buckets_max=10)
    assert rates.arrives(ONE, 0.0) == AT_ONCE
    for number in range(20):
        rates.arrives(f"198.51.100.{number}", 0.0)
        if number < 4:
            assert rates.arrives(ONE, 0.0).wait_s == number + 1
    assert len(rates) == 10


def test_quotas_of_addresses_cost_requests_nothing_and_those_of_callers_no_connection() -> None:
    clock = HandClock()
    quotas = ClientQuotas(lambda _: False, clock.monotonic, delay_ms_max=5_000)
    quotas.take(Quotas({QuotaEntity(ip=DEFAULT): {RATE: 1}}))
    assert quotas.of(Caller("a", ONE)) is None
    assert [quotas.connection(ONE).wait_s for _ in range(2)] == [0, 1]
    assert quotas.throttled_s(RATE) == 1
    quotas.take(Quotas({QuotaEntity("alice"): {Quota.PRODUCER_BYTE_RATE: 1}}))
    assert quotas.of(Caller("a", ONE)) is not None
    assert quotas.connection(ONE) == AT_ONCE


@pytest.mark.parametrize("address", ["", "not one"])
def test_what_is_no_address_has_the_default(address: str) -> None:
    """The peer of a socket that is no longer connected has none."""
    assert limited(default=1).arrives(address, 0.0) == AT_ONCE
