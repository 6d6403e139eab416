"""The follower's end of replication, against a leader that the test plays message by message."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.membership.pulse import ANSWER_S
from strandline.broker.replication.follower_end import StreamBroken
from strandline.errors import FencedLeaderEpoch, OffsetOutOfRange, UnknownLeaderEpoch
from strandline.ids import BrokerId, LeaderEpoch, Offset
from strandline.vocabulary.replication import Push
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.memory_stream import Said
from tests.broker.support.replicas import CLOCK, Followed, batch, following, open_replica, values, write
from tests.waiting import DEADLINE_S, eventually


async def _subscription(followed: Followed) -> int:
    """The id of the flow that the follower asks for next."""
    while True:
        said = await followed.stream.heard()
        if said.subscribe:
            return said.subscribe[0].subscription_id


async def _position(followed: Followed) -> int:
    """The LEO that the follower reports next."""
    while True:
        said = await followed.stream.heard()
        if said.progress:
            return said.progress[0][1]


async def test_a_follower_asks_with_its_epoch_and_that_of_its_last_record() -> None:
    """CORRECTNESS T7: both, or a diverging log could be in the ISR."""
    replica = open_replica()
    write(replica, 3, "a", "b")
    async with following(replica, 5) as followed:
        said = await followed.heard()
        assert said.hello is not None
        assert (said.hello.broker_id, said.hello.broker_epoch, said.hello.leader_id) == (2, 20, 1)
        (asked,) = said.subscribe
        assert (asked.leader_epoch, asked.fetch_offset, asked.last_fetched_epoch) == (5, 2, 3)


async def test_appended_records_are_reported_and_messages_acknowledged() -> None:
    """Append, take the HW, report the position."""
    replica = open_replica()
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        records = batch("a", "b", leader_epoch=1)
        followed.stream.push(Push(asked.subscription_id, high_watermark=1, records=records))
        said = await followed.stream.heard()
        assert (said.progress, said.acknowledged) == (((asked.subscription_id, 2),), 1)
        assert replica.high_watermark == 1


async def test_data_of_an_older_subscription_is_dropped() -> None:
    """CORRECTNESS T5, T6: the leader is the same, the epoch is not; what was under way is of another log."""
    replica = open_replica()
    async with following(replica, 1) as followed:
        (old,) = (await followed.heard()).subscribe
        replica.learn_leader(BrokerId(1), LeaderEpoch(2))
        followed.link.follow(replica)
        new = await _subscription(followed)
        assert new != old.subscription_id
        stale = batch("stale", leader_epoch=1)
        followed.stream.push(Push(old.subscription_id, high_watermark=1, records=stale))
        followed.stream.push(Push(new, high_watermark=1, records=batch("fresh", leader_epoch=2)))
        assert await _position(followed) == 1
        assert values(replica) == ["fresh"]


async def test_data_is_dropped_once_a_younger_epoch_is_known() -> None:
    """CORRECTNESS T6: even before the flow of that epoch is asked for."""
    replica = open_replica()
    async with following(replica, 1) as followed:
        (old,) = (await followed.heard()).subscribe
        replica.learn_leader(BrokerId(3), LeaderEpoch(2))
        followed.stream.push(Push(old.subscription_id, records=batch("stale", leader_epoch=1)))
        assert (await followed.stream.heard()).acknowledged == 1
        assert values(replica) == []


async def test_a_follower_cuts_to_the_lesser_end_and_asks_again() -> None:
    """CORRECTNESS T3: the leader's epoch 1 is longer than the follower's, whose epoch 2 it never saw."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    write(replica, 2, "c", "d")
    async with following(replica, 5) as followed:
        (asked,) = (await followed.heard()).subscribe
        followed.stream.push(Push(asked.subscription_id, diverging=(1, 4)))
        said = await followed.stream.heard()
        (again,) = said.subscribe
        assert (again.fetch_offset, again.last_fetched_epoch) == (2, 1)
        assert values(replica) == ["a", "b"]


async def test_without_an_epoch_in_common_a_follower_begins_where_the_leader_does() -> None:
    """CORRECTNESS T9, H7: an undefined answer is no guess at the log's end."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    async with following(replica, 5) as followed:
        (asked,) = (await followed.heard()).subscribe
        followed.stream.push(Push(asked.subscription_id, log_start_offset=7, diverging=(-1, -1)))
        (again,) = (await followed.stream.heard()).subscribe
        assert (again.fetch_offset, again.last_fetched_epoch) == (7, -1)
        assert replica.high_watermark == replica.log.log_start_offset == 7


async def test_below_the_watermark_nothing_is_cut() -> None:
    """CORRECTNESS T11: the replica keeps what was committed, stops, and says so."""
    replica = open_replica()
    write(replica, 1, "a", "b", "c")
    replica.raise_watermark(Offset(3))
    with capture_logs() as logs:
        async with following(replica, 5) as followed:
            (asked,) = (await followed.heard()).subscribe
            followed.stream.push(Push(asked.subscription_id, diverging=(1, 1)))
            said = await followed.stream.heard()
            assert said.unsubscribe == (asked.subscription_id,)
            assert said.subscribe == ()
    assert values(replica) == ["a", "b", "c"]
    (refusal,) = [entry for entry in logs if entry["log_level"] == "critical"]
    assert (refusal["to"], refusal["high_watermark"]) == (1, 3)


async def test_the_loss_of_an_unclean_election_is_reported_as_an_exact_range() -> None:
    """CORRECTNESS T11: the topic allows it, and the loss is not silent."""
    replica = open_replica(TopicConfig(unclean_leader_election_enable=True))
    write(replica, 1, "a", "b", "c")
    replica.raise_watermark(Offset(3))
    with capture_logs() as logs:
        async with following(replica, 5) as followed:
            (asked,) = (await followed.heard()).subscribe
            followed.stream.push(Push(asked.subscription_id, diverging=(1, 1)))
            await followed.stream.heard()
    assert values(replica) == ["a"]
    assert replica.high_watermark == 1
    (loss,) = [entry for entry in logs if entry["event"] == "unclean election lost committed records"]
    assert (loss["first"], loss["end"], loss["count"]) == (1, 3, 2)


async def test_a_follower_that_fell_behind_retention_begins_at_the_leaders_start() -> None:
    """CORRECTNESS H7, H9: the records that it lacks exist nowhere any longer, and its HW moves with the log's
    start."""
    replica = open_replica()
    write(replica, 1, "a")
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        error = OffsetOutOfRange("begins at 9", limit=9)
        followed.stream.push(Push(asked.subscription_id, error=error))
        (again,) = (await followed.stream.heard()).subscribe
        assert again.fetch_offset == 9
        assert replica.high_watermark == 9


async def test_the_log_start_travels_with_every_push_and_takes_the_watermark_along() -> None:
    """CORRECTNESS H9: a new leader deletes what it knows to be committed before it may report its HW; the
    follower's HW is never below its log's start."""
    replica, seen = open_replica(TopicConfig(segment_bytes=1024)), list[tuple[int, int]]()
    replica.listen(lambda: seen.append((replica.log.log_start_offset, replica.high_watermark)))
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        records = b"".join(batch(v, base_offset=n, leader_epoch=1) for n, v in enumerate("abcd"))
        push = Push(asked.subscription_id, high_watermark=-1, log_start_offset=2, records=records)
        followed.stream.push(push)
        assert await _position(followed) == 4
        await eventually(lambda: replica.log.log_start_offset == 2)
        assert replica.high_watermark == 2
        followed.stream.push(Push(asked.subscription_id, high_watermark=4, log_start_offset=2))
        followed.stream.push(Push(asked.subscription_id, high_watermark=4, log_start_offset=3))
        await eventually(lambda: (3, 4) in seen)  # fetch sessions look again


async def test_a_watermark_that_is_not_known_is_not_taken() -> None:
    """CORRECTNESS H1: a new leader's HW may be older than what the follower has shown already."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    replica.raise_watermark(Offset(2))
    async with following(replica, 2) as followed:
        (asked,) = (await followed.heard()).subscribe
        followed.stream.push(Push(asked.subscription_id, high_watermark=-1))
        followed.stream.push(Push(asked.subscription_id, high_watermark=1))
        await eventually(lambda: replica.high_watermark == 2)
        while (await followed.stream.heard()).acknowledged < 2:
            continue
        assert replica.high_watermark == 2


@pytest.mark.parametrize("at", [30, 70, -1], ids=["in-the-header", "in-the-records", "cut-short"])
async def test_corrupt_bytes_on_the_wire_are_not_appended(at: int) -> None:
    """CORRECTNESS E15: the CRC is checked on every fetch; the flow begins anew at the same offset."""
    replica = open_replica()
    good = batch("some value", leader_epoch=1)
    bad = good[:-1] if at < 0 else good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        followed.stream.push(Push(asked.subscription_id, high_watermark=1, records=bad))
        again = await _subscription(followed)
        assert again != asked.subscription_id
        assert (values(replica), replica.high_watermark) == ([], 0)
        followed.stream.push(Push(again, high_watermark=1, records=good))
        assert await _position(followed) == 1


async def test_records_that_do_not_follow_the_log_are_not_appended() -> None:
    """CORRECTNESS E15, T6: a gap is as bad as a flipped bit."""
    replica = open_replica()
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        gap = batch("b", base_offset=1, leader_epoch=1)
        followed.stream.push(Push(asked.subscription_id, records=gap))
        await _subscription(followed)
        assert values(replica) == []


async def test_a_failed_log_is_no_longer_followed() -> None:
    """CORRECTNESS E14: the first failed append fences the log; the leader hears no position of it."""
    files = MemoryFiles()
    replica = open_replica(files=files)

    def full(operation: str, path: Path) -> int | None:
        if operation == "append":
            raise OSError(errno.ENOSPC, "no space left")
        return None

    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        files.fault = full
        followed.stream.push(Push(asked.subscription_id, records=batch("a", leader_epoch=1)))
        said = await followed.stream.heard()
        assert said.unsubscribe == (asked.subscription_id,)
        assert (said.progress, said.subscribe) == ((), ())
        assert replica.log.failed is not None
        assert not replica.whole


async def test_a_leader_that_does_not_know_of_its_election_yet_is_asked_again() -> None:
    """CORRECTNESS T6: the claim is written, its reply is on the way to the winner."""
    replica = open_replica()
    async with following(replica, 2) as followed:
        (asked,) = (await followed.heard()).subscribe
        error = UnknownLeaderEpoch("epoch 2 is not known here")
        followed.stream.push(Push(asked.subscription_id, error=error))
        assert await _subscription(followed) != asked.subscription_id
        assert followed.refused == []


async def test_a_leader_of_another_epoch_is_reported() -> None:
    """A typed error; ZooKeeper has the present leader."""
    replica = open_replica()
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        followed.stream.push(Push(asked.subscription_id, error=FencedLeaderEpoch("epoch 1 is over")))
        await eventually(lambda: followed.refused)
        assert isinstance(followed.refused[0], FencedLeaderEpoch)


async def test_a_flow_of_an_older_epoch_does_not_keep_the_new_one_from_being_asked_for() -> None:
    """CORRECTNESS T5: the epoch was learned while the leader was suspected; when it is followed again, the
    flow of the old epoch still seems open, and nothing would ever come of it."""
    replica = open_replica()
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        replica.learn_leader(BrokerId(1), LeaderEpoch(2))
        followed.link.follow_again(replica)
        said = await followed.stream.heard()
        assert said.unsubscribe == (asked.subscription_id,)
        assert [again.leader_epoch for again in said.subscribe] == [2]


async def test_a_broken_stream_is_opened_again_with_new_subscriptions() -> None:
    """Messages in flight are lost; the position says where to continue."""
    replica = open_replica()
    async with following(replica, 1) as followed:
        (asked,) = (await followed.heard()).subscribe
        followed.stream.push(Push(asked.subscription_id, records=batch("a", leader_epoch=1)))
        assert await _position(followed) == 1
        followed.stream.break_off("reset")
        await eventually(lambda: len(followed.streams) == 2)
        (again,) = (await followed.stream.heard()).subscribe
        assert (again.fetch_offset, again.last_fetched_epoch) == (1, 1)
        assert again.subscription_id > asked.subscription_id  # numbers of one life count upwards (I2)
        assert followed.lost == [1]


@pytest.mark.parametrize("turns", range(5))
async def test_a_stream_that_breaks_as_the_session_ends_does_not_keep_the_link_running(turns: int) -> None:
    """CORRECTNESS E12: a process that wakes from a long pause sees both in one turn of the event loop; a
    cancellation that is lost there keeps the session's end, and the next session, waiting forever."""
    async with asyncio.timeout(DEADLINE_S), following(open_replica(), 1) as followed:
        await followed.heard()
        followed.stream.break_off("reset")
        for _ in range(turns):
            await asyncio.sleep(0)


# --- beats --------------------------------------------------------------------------------------------


async def test_a_beat_of_the_leader_is_acknowledged_like_any_message() -> None:
    """CORRECTNESS E19: so an idle follower is heard as often as its leader beats."""
    async with following(open_replica(), 5) as follower:
        await eventually(lambda: follower.streams)
        assert (await follower.stream.heard()).hello is not None
        follower.stream.push()
        assert (await follower.stream.heard()).acknowledged == 1


async def test_a_follower_that_has_said_nothing_for_a_while_says_that_it_is_there() -> None:
    """CORRECTNESS E19: it may be busy with a message for long, or wait for one that is on its way."""
    async with following(open_replica(), 5) as follower:
        await eventually(lambda: follower.streams)
        assert (await follower.stream.heard()).hello is not None
        follower.link.beat(CLOCK.monotonic())
        follower.link.beat(CLOCK.monotonic() + 2 * ANSWER_S)
        said = await follower.stream.heard()
        assert said == Said(None, (), (), (), 0)


async def test_a_leader_is_heard_from_its_first_beat_on_and_while_a_message_is_handled() -> None:
    """CORRECTNESS E19: one of a version without beats sends none, and is not judged."""
    async with following(open_replica(), 5) as follower:
        await eventually(lambda: follower.streams)
        follower.stream.push(Push(99))
        while (await follower.stream.heard()).acknowledged < 1:
            pass
        assert follower.link.heard_at is None
        began = CLOCK.monotonic()
        follower.stream.push()
        while (await follower.stream.heard()).acknowledged < 2:
            pass
        assert (heard_at := follower.link.heard_at) is not None
        assert heard_at >= began
        follower.stream.break_off("reset")
        await eventually(lambda: follower.lost)
        assert follower.link.heard_at == heard_at, "a stream that breaks is no message"
        follower.link.new_life()
        assert follower.link.heard_at is None


async def test_a_message_of_the_leaders_last_life_says_nothing_about_the_next() -> None:
    """CORRECTNESS E19: the next one may be of a version without beats."""
    replica = open_replica(TopicConfig(flush_messages=1))
    async with following(replica, 1) as follower:
        (asked,) = (await follower.heard()).subscribe
        flush = replica.log.flush

        def flush_late() -> None:
            flush()
            follower.link.new_life()

        replica.log.flush = flush_late  # type: ignore[method-assign]
        follower.stream.push()
        await eventually(lambda: follower.link.heard_at is not None)
        follower.stream.push(Push(asked.subscription_id, records=batch("a", base_offset=0, leader_epoch=1)))
        while (await follower.stream.heard()).acknowledged < 2:
            pass
        assert follower.link.heard_at is None


async def test_a_leader_that_owes_beats_is_silent_since_the_stream_was_opened() -> None:
    """CORRECTNESS E19: one that hung in this moment would be judged by its session alone."""
    async with following(open_replica(), 5, owes_beats=True) as follower:
        began = CLOCK.monotonic()
        await eventually(lambda: follower.streams)
        assert (await follower.stream.heard()).hello is not None
        assert (since := follower.link.calling_since) is not None
        assert since >= began
        registered = CLOCK.monotonic()
        follower.link.new_life()
        assert (since := follower.link.calling_since) is not None, "the stream may be one to this life"
        assert since >= registered
        follower.stream.push(Push(99))
        while (await follower.stream.heard()).acknowledged < 1:
            pass
        assert follower.link.heard_at is not None, "no beat has to come first"
        assert follower.link.calling_since is None


async def test_a_leader_that_is_followed_no_more_is_not_silent_without_a_stream() -> None:
    """CORRECTNESS E19: this broker opens no other one, so it cannot judge that leader."""
    replica = open_replica()
    async with following(replica, 5) as follower:
        await eventually(lambda: follower.streams)
        follower.stream.push()
        await eventually(lambda: follower.link.heard_at is not None)
        follower.link.unfollow(replica.key)
        await asyncio.sleep(0)
        assert follower.link.heard_at is not None, "the stream is open, and the leader beats on it"
        follower.stream.break_off("reset")
        await eventually(lambda: follower.lost)
        await eventually(lambda: follower.link.heard_at is None)


async def test_a_leader_is_called_from_the_first_attempt_on_until_it_answers() -> None:
    """CORRECTNESS E19: one that hung before this follower had a stream to it was never heard."""
    calls: list[float | None] = []

    def unanswered() -> Iterator[StreamBroken]:
        for answered in (False, False, True, False):
            calls.append(follower.link.calling_since)
            yield StreamBroken("no stream", answered=answered)
        calls.append(follower.link.calling_since)

    async with following(open_replica(), 5, unopened=unanswered(), fetcher_retry_ms=1) as follower:
        began = CLOCK.monotonic()
        await eventually(lambda: follower.streams)
        await eventually(lambda: follower.link.calling_since is None, what="the stream is open")
        first, second, third, fresh, last = calls
        assert first is not None and first >= began
        assert first == second == third, "each attempt is part of one silence"
        assert fresh is not None and fresh > first, "a refusal is an answer"
        assert last == fresh
        follower.link.new_life()
        assert follower.link.calling_since is None
