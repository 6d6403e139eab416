"""The bound on what replicas that a reassignment adds are sent."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from strandline.security.quotas.token_bucket import TokenBucket

RATE = 1_000
BURST_S = 0.5


def test_a_full_bucket_lets_half_a_second_through_at_once_and_then_the_rate() -> None:
    """CORRECTNESS I10: a bound in bytes a second."""
    bucket = TokenBucket(RATE, now=0, burst_s=BURST_S)
    assert bucket.reserve(500, 0) == 0
    assert bucket.reserve(250, 0) == 0.25
    assert bucket.reserve(250, 0) == 0.5
    assert bucket.reserve(750, 1) == 0.25


def test_a_batch_larger_than_the_bucket_passes_and_is_paid_for_afterwards() -> None:
    """CORRECTNESS I10: no sender starves, with any size of a batch."""
    bucket = TokenBucket(RATE, now=0, burst_s=BURST_S)
    assert bucket.reserve(bucket.portion, 0) == 0
    bucket.correct(bucket.portion, 10_000)
    assert bucket.reserve(0, 0) == 9.5
    assert bucket.reserve(0, 9.5) == 0


def test_bytes_reserved_and_not_sent_are_available_to_others() -> None:
    bucket = TokenBucket(RATE, now=0, burst_s=BURST_S)
    bucket.reserve(500, 0)
    bucket.correct(500, 0)
    assert bucket.is_full(0)
    assert bucket.reserve(500, 0) == 0


def test_the_slowest_bucket_still_gives_a_byte() -> None:
    assert TokenBucket(1, now=0, burst_s=BURST_S).portion == 1


@given(
    st.lists(st.integers(1, 5_000), min_size=2, max_size=8),
    st.integers(100, 10_000),
    st.integers(10, 60),
)
def test_any_number_of_senders_keep_to_the_rate_and_take_turns(
    batches: list[int], rate: int, seconds: int
) -> None:
    """CORRECTNESS I10: each sends batches of its own size, whenever it may; the average is the rate, except
    for the burst and one batch each, and no sender is left out."""
    bucket = TokenBucket(rate, now=0, burst_s=BURST_S)
    sent = [0] * len(batches)
    # A heap of (moment, sender, reserved bytes), in the order in which timers would fire.
    due = [(bucket.reserve(bucket.portion, 0.0), who, bucket.portion) for who in range(len(batches))]
    heapq.heapify(due)
    now, last = 0.0, [0.0] * len(batches)
    longest = 0.0
    while due[0][0] <= seconds:
        now, who, reserved = heapq.heappop(due)
        bucket.correct(reserved, batches[who])
        sent[who] += batches[who]
        longest = max(longest, now - last[who])
        last[who] = now
        heapq.heappush(due, (now + bucket.reserve(bucket.portion, now), who, bucket.portion))
    assert sum(sent) <= rate * (now + BURST_S) + sum(batches) + bucket.portion * len(batches)
    turn = (sum(batches) + bucket.portion * len(batches)) / rate
    assert longest <= 2 * turn + BURST_S, f"a sender waited {longest} s, a turn of all takes {turn} s"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("use", "give back", "forgive", "pause")), st.floats(0, 10_000, allow_nan=False)
    ),
    max_size=30,
)


@given(STEPS, st.floats(1, 10_000), st.floats(0.1, 5))
def test_after_whatever_happened_a_pause_saves_no_more_than_the_burst(
    steps: list[tuple[str, float]], rate: float, burst_s: float
) -> None:
    """However much was given back, forgiven or waited for: what passes at once afterwards fills the bucket
    once, and the next token has to be waited for."""
    now = 0.0
    bucket = TokenBucket(rate, now, burst_s=burst_s)
    for step, amount in steps:
        match step:
            case "use":
                bucket.reserve(amount, now)
            case "give back":
                bucket.correct(amount, 0)
            case "forgive":
                bucket.forgive(amount)
            case _:
                now += amount
    now += 1_000_000
    assert bucket.reserve(rate * burst_s, now) == 0, "a full bucket"
    assert bucket.reserve(1, now) >= 0.99 / rate, "and no more than that"


def test_what_is_given_back_fills_the_bucket_once() -> None:
    bucket = TokenBucket(RATE, now=0, burst_s=BURST_S)
    bucket.reserve(100, 0)
    bucket.correct(10_000, 0)
    assert bucket.reserve(500, 0) == 0
    assert bucket.reserve(250, 0) == 0.25


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from((0.0, 0.0, 0.01, 100.0))), max_size=30),
    st.floats(1, 10_000),
    st.floats(0.1, 5),
)
def test_no_time_lets_more_through_than_the_burst_and_the_rate(
    uses: list[tuple[float, float]], rate: float, burst_s: float
) -> None:
    """In any interval: a caller uses parts of a burst, waits for each, and pauses as it likes."""
    bucket, now, passed = TokenBucket(rate, 0.0, burst_s=burst_s), 0.0, list[tuple[float, float]]()
    for part, pause_s in uses:
        now += pause_s
        now += bucket.reserve(part * rate * burst_s, now)
        passed.append((now, part * rate * burst_s))
    for first, (began, _) in enumerate(passed):
        through = 0.0
        for at, tokens in passed[first:]:
            through += tokens
            assert through <= (rate * (burst_s + at - began)) * 1.001 + 1
