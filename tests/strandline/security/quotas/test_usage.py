"""What callers use, and how long they wait for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.ports import Caller
from strandline.security.principal import Principal
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import (
    DEFAULT,
    NO_QUOTAS,
    RATE_MIN,
    Quota,
    QuotaAlteration,
    QuotaEntity,
    Quotas,
)
from strandline.security.quotas.usage import Usage
from tests.hand_clock import HandClock

RATE, MUTATIONS = Quota.PRODUCER_BYTE_RATE, Quota.CONTROLLER_MUTATION_RATE
ALICE = Caller("ipv4:192.0.2.1:1", "192.0.2.1", principal=Principal("alice"), client_id="x")


def usage(entity: QuotaEntity, limit: float, quota: Quota = RATE, **given: int) -> Usage:
    made = Usage(**{"delay_s_max": 5, **given})
    made.take(Quotas({entity: {quota: limit}}))
    return made


@given(
    st.lists(st.tuples(st.integers(1, 3_000), st.floats(0, 2)), min_size=20, max_size=60),
    st.integers(1_000, 10_000),
)
def test_a_caller_that_waits_keeps_to_its_rate(requests: list[tuple[int, float]], rate: int) -> None:
    """It may send anything, and pause when it likes: at most the rate, what a second saves, and one
    request."""
    bucket, now, sent = usage(QuotaEntity("alice"), rate), 0.0, 0
    for size, pause_s in requests:
        wait_s = bucket.charge(RATE, "alice", "x", size, now)
        sent += size
        assert sent <= rate * (now + 1) + size + 1e-3
        assert bucket.owed(RATE, "alice", "x", now) == wait_s
        now += wait_s + pause_s
    assert bucket.charge(RATE, "bob", "x", 10**9, now) == 0


@pytest.mark.parametrize("idle_s", [1.0, 60.0, 1e6])
def test_a_caller_that_used_nothing_for_long_saves_one_second_of_it(idle_s: float) -> None:
    bucket = usage(QuotaEntity("alice"), 1_000)
    assert bucket.charge(RATE, "alice", "", 500, 0) == 0
    assert bucket.charge(RATE, "alice", "", 1_000, idle_s) == 0
    assert bucket.charge(RATE, "alice", "", 500, idle_s) == 0.5


def test_no_wait_is_longer_than_the_longest_and_the_rest_is_forgiven() -> None:
    bucket = usage(QuotaEntity("alice"), 1_000)
    assert bucket.charge(RATE, "alice", "", 100_000, 0) == 5
    assert bucket.owed(RATE, "alice", "", 5) == 0


def test_those_of_a_default_have_the_limit_each_by_itself() -> None:
    bucket = usage(QuotaEntity(DEFAULT), 1_000)
    assert bucket.charge(RATE, "alice", "x", 2_000, 0) == 1
    assert bucket.charge(RATE, "alice", "y", 1_000, 0) == 2
    assert bucket.charge(RATE, "bob", "x", 1_000, 0) == 0


@pytest.mark.parametrize("quota", [MUTATIONS, Quota.REQUEST_PERCENTAGE])
def test_the_least_limit_is_one(quota: Quota) -> None:
    """CORRECTNESS X14: a smaller one was nothing once it was counted in hundredths, and the bucket that never
    fills ended the broker of the next request."""
    QuotaAlteration(QuotaEntity("alice"), {quota: RATE_MIN})
    bucket = usage(QuotaEntity("alice"), RATE_MIN, quota)
    assert bucket.admit(quota, "alice", "", 1e6, 0) == 0
    assert 1e10 < bucket.owed(quota, "alice", "", 0) < 1e15
    assert bucket.charge(quota, "alice", "", 1e6, 0) == 5


def test_a_percentage_is_of_a_second_of_work() -> None:
    bucket = usage(QuotaEntity("alice"), 50, Quota.REQUEST_PERCENTAGE)
    assert bucket.charge(Quota.REQUEST_PERCENTAGE, "alice", "", 0.5, 0) == 0
    assert bucket.charge(Quota.REQUEST_PERCENTAGE, "alice", "", 0.25, 0) == 0.5
    assert bucket.throttled_s[Quota.REQUEST_PERCENTAGE] == 0.5


def test_another_limit_counts_at_once() -> None:
    bucket = usage(QuotaEntity("alice"), 1_000)
    assert bucket.charge(RATE, "alice", "", 4_000, 0) == 3
    bucket.take(Quotas({QuotaEntity("alice"): {RATE: 2_000}}))
    assert bucket.charge(RATE, "alice", "", 2_000, 0) == 0
    bucket.take(NO_QUOTAS)
    assert bucket.charge(RATE, "alice", "", 10**9, 0) == 0
    assert len(bucket) == 0


def test_the_number_of_buckets_is_bounded_and_the_one_in_use_stays() -> None:
    """Client ids are the clients', as long and as many as they like."""
    bucket = usage(QuotaEntity(None, DEFAULT), 1_000, buckets_max=10)
    assert bucket.charge(RATE, "", "busy", 2_000, 0) == 1
    for number in range(100):
        bucket.charge(RATE, "", f"{number}" * 10_000, 1, 0)
        assert bucket.owed(RATE, "", "busy", 0) == 1
    assert len(bucket) == 10


def quotas(clock: HandClock, **member: bool) -> ClientQuotas:
    return ClientQuotas(lambda _: bool(member), clock.monotonic, delay_ms_max=5_000)


def test_a_bill_has_the_longest_of_its_waits() -> None:
    clock = HandClock()
    kept = quotas(clock)
    assert kept.of(ALICE) is None
    limits = {RATE: 1_000, Quota.REQUEST_PERCENTAGE: 10}
    kept.take(Quotas({QuotaEntity("alice"): limits}))
    bill = kept.of(ALICE)
    assert bill is not None and bill.wait_s == 0
    bill.charge(RATE, 4_000)
    bill.charge(Quota.REQUEST_PERCENTAGE, 0.2)
    assert bill.wait_s == pytest.approx(3)
    clock.now_s += 2
    assert bill.wait_s == pytest.approx(1)
    later = kept.of(replace(ALICE, client_id="y"))
    assert later is not None and later.wait_s == 0
    assert later.owed(RATE) == pytest.approx(1)
    assert later.wait_s == pytest.approx(1)
    assert kept.throttled_s(RATE) == pytest.approx(3)


def test_a_member_of_the_cluster_has_no_quota() -> None:
    kept = quotas(HandClock(), member=True)
    kept.take(Quotas({QuotaEntity(DEFAULT): {RATE: 1}}))
    assert kept.of(ALICE) is None


def test_what_is_admitted_is_paid_for_before_anything_else_is_and_nothing_is_forgiven() -> None:
    """A refusal counts nothing: the caller waits no longer for it."""
    bucket = usage(QuotaEntity("alice"), 2, MUTATIONS)
    assert bucket.admit(MUTATIONS, "alice", "", 102, 0) == 0
    for _ in range(3):
        assert bucket.admit(MUTATIONS, "alice", "", 1, 10) == 40
    assert bucket.admit(MUTATIONS, "bob", "", 1_000, 10) == 0
    assert bucket.admit(MUTATIONS, "alice", "", 1, 50) == 0
    assert bucket.admit(MUTATIONS, "alice", "", 1, 50) == 0.5
    assert bucket.throttled_s[MUTATIONS] == 0


def test_a_wait_for_another_process_has_the_bound_of_all_waits() -> None:
    clock = HandClock()
    kept = quotas(clock)
    kept.take(Quotas({QuotaEntity("alice"): {MUTATIONS: 1}}))
    bill = kept.of(ALICE)
    assert bill is not None
    bill.wait(MUTATIONS, 2)
    assert bill.wait_s == 2
    bill.wait(MUTATIONS, 60)
    assert bill.wait_s == 5
    assert kept.throttled_s(MUTATIONS) == 7
