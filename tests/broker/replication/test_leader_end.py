"""The leader's end of replication, against a follower that the test plays message by message."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.core.replication.produce_ticket import Produced
from strandline.broker.replication.leader_end import FollowerStream
from strandline.config.limits import REPLICAS_PER_BROKER_MAX
from strandline.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StorageFailed,
    StrandlineError,
    UnknownLeaderEpoch,
)
from strandline.ids import Offset
from strandline.records import decode
from strandline.vocabulary.replication import Push
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import leading, open_replica, subscribe, write
from tests.waiting import eventually


async def _push(link: FollowerStream) -> Push:
    """The only one of the next message."""
    _, (push,) = await link.next_message()
    return push


async def _error(link: FollowerStream) -> StrandlineError:
    push = await _push(link)
    assert push.error is not None
    return push.error


def _values(push: Push) -> list[str]:
    return [(record.value or b"").decode() for record in decode(push.records)]


async def _nothing_to_say(link: FollowerStream) -> bool:
    """True if there is no message now, however long the loop goes round."""
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(link.next_message())
        for _ in range(20):
            await asyncio.sleep(0)
        silent = not waiting.done()
        waiting.cancel()
    return silent


# --- accepted streams ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("epoch", "refusal"), [(4, FencedLeaderEpoch), (6, UnknownLeaderEpoch)])
async def test_a_position_in_another_epoch_is_refused_and_not_counted(
    epoch: int, refusal: type[StrandlineError]
) -> None:
    """CORRECTNESS T6, T7, H2: only a follower that fetches in the leader's own epoch counts."""
    replica = open_replica()
    write(replica, 4, "a")
    async with leading(replica, 5) as leader:
        link = leader.link()
        link.subscribe(subscribe(epoch, 1, 4))
        assert isinstance(await _error(link), refusal)
        assert leader.follows(2, -1)


async def test_a_diverging_log_learns_the_offset_and_is_not_counted() -> None:
    """CORRECTNESS T3, T7: the leader's largest epoch not above the one asked, and where it ends."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    write(replica, 3, "c")
    async with leading(replica, 5) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 3, 2))
        push = await _push(link)
        assert push.diverging == (1, 2)
        assert push.high_watermark == -1  # T10: no HW is sent that could be taken before the truncation
        assert leader.follows(2, -1)


@pytest.mark.parametrize(
    ("fetch_offset", "last_epoch", "answer"),
    [
        (3, 7, (-1, -1)),  # of an epoch that this leader never heard of
        (2, -1, (-1, -1)),  # records without an epoch
        (5, 3, (3, 3)),  # more of an epoch than the leader has
    ],
)
async def test_an_unknown_epoch_is_never_taken_for_the_end_of_the_log(
    fetch_offset: int, last_epoch: int, answer: tuple[int, int]
) -> None:
    """CORRECTNESS T9: an undefined answer, not the LEO."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    write(replica, 3, "c")
    async with leading(replica, 5) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, fetch_offset, last_epoch))
        assert (await _push(link)).diverging == answer


async def test_a_follower_below_the_log_start_learns_where_it_begins() -> None:
    """CORRECTNESS H7, H9."""
    replica = open_replica()
    replica.restart_at(Offset(7))
    async with leading(replica, 5) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 3, 1))
        error = await _error(link)
        assert isinstance(error, OffsetOutOfRange)
        assert error.limit == 7


async def test_a_broker_that_does_not_lead_refuses() -> None:
    """CORRECTNESS H2: a broker that stepped down in the epoch counts no follower."""
    replica = open_replica()
    async with leading(replica, 5) as leader:
        leader.leadership.end()
        replica.leadership = None
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        assert isinstance(await _error(link), NotLeaderOrFollower)


# --- positions ----------------------------------------------------------------------------------------


async def test_refusals_that_a_follower_does_not_read_are_bounded() -> None:
    """It may ask for partitions that are not here for as long as it likes."""
    async with leading(open_replica(), 5) as leader:
        link = leader.link()
        for number in range(REPLICAS_PER_BROKER_MAX):
            link.subscribe(subscribe(99, 0, 0, sub_id=number))
        with pytest.raises(InvalidRequest, match="20000 refusals to read") as raised:
            link.subscribe(subscribe(99, 0, 0, sub_id=REPLICAS_PER_BROKER_MAX))
        assert raised.value.limit == REPLICAS_PER_BROKER_MAX


async def test_a_position_that_was_never_sent_is_refused() -> None:
    """CORRECTNESS T6: it is of another log, and would commit what the follower does not have."""
    replica = open_replica()
    async with leading(replica, 5, isr=(1, 2)) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        leader.produce("a")
        with pytest.raises(InvalidRequest, match="claims 1, 0 was sent"):
            link.progress([(1, 1)])
        assert leader.outcomes == []


async def test_a_message_that_was_never_sent_is_not_acknowledged() -> None:
    """CONTRIBUTING 6: a faulty peer receives a typed error."""
    async with leading(open_replica(), 5) as leader:
        with pytest.raises(InvalidRequest, match="1 was acknowledged, 0 were sent"):
            leader.link().acknowledge(1)


async def test_positions_of_an_ended_leadership_count_for_nothing() -> None:
    """CORRECTNESS H2, H6: its stream continues, and may carry the flow of a later epoch of the same
    leader."""
    replica = open_replica()
    async with leading(replica, 5, isr=(1, 2)) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        leader.produce("a")
        await _push(link)
        leader.leadership.end()
        link.progress([(1, 1)])
        assert [type(outcome).__name__ for outcome in leader.outcomes] == ["OutcomeUnknown"]
        assert replica.high_watermark == 0
    async with leading(replica, 6, isr=(1, 2)) as again:
        link.progress([(1, 1)])
        assert again.follows(2, -1)


async def test_the_end_of_a_leadership_is_reported() -> None:
    """With a typed error; the subscription ends with it."""
    async with leading(open_replica(), 5) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        await _push(link)
        leader.leadership.end()
        link.acknowledge(1)
        assert isinstance(await _error(link), NotLeaderOrFollower)
        assert leader.leadership.followers == {}


async def test_a_broken_stream_does_not_end_the_flows_of_a_newer_one() -> None:
    """CORRECTNESS I2, H10: the leader notices late; the follower has every record and reports no more."""
    async with leading(open_replica(), 5, isr=(1,)) as leader:
        broken, younger = leader.link(), leader.link()
        broken.subscribe(subscribe(5, 0, -1, sub_id=1))
        younger.subscribe(subscribe(5, 0, -1, sub_id=2))
        broken.close()
        await eventually(lambda: leader.leadership.core.state.isr_ids == (1, 2))


# --- watermarks ---------------------------------------------------------------------------------------


async def test_a_new_leader_reports_no_watermark_before_it_knows_it() -> None:
    """CORRECTNESS H1, KIP-207: until the HW has reached the LEO at its election."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    replica.raise_watermark(Offset(1))
    async with leading(replica, 5, isr=(1, 2)) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        assert (await _push(link)).high_watermark == -1
        link.acknowledge(1)
        link.progress([(1, 2)])
        assert (await _push(link)).high_watermark == 2


async def test_a_watermark_travels_with_records_or_soon_by_itself() -> None:
    """The follower's HW follows the leader's, also when nothing more is written."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        leader.produce("a")
        first = await _push(link)
        assert (_values(first), first.high_watermark) == (["a"], 0)
        link.acknowledge(1)
        link.progress([(1, 1)])
        second = await _push(link)
        assert (_values(second), second.high_watermark) == ([], 1)
        assert leader.outcomes == [Produced(0, 0)]


# --- the window ---------------------------------------------------------------------------------------


async def test_no_more_messages_are_under_way_than_the_window_allows() -> None:
    """CONTRIBUTING 7: everything has a limit; what comes up meanwhile coalesces into the next message."""
    async with leading(open_replica(), 5) as leader:
        link = leader.link(push_window=2)
        link.subscribe(subscribe(5, 0, -1))
        await _push(link)
        leader.produce("a")
        assert _values(await _push(link)) == ["a"]
        for value in "bcd":
            leader.produce(value)
        assert await _nothing_to_say(link)
        link.acknowledge(1)
        assert _values(await _push(link)) == ["b", "c", "d"]


async def test_a_message_is_not_larger_than_allowed_but_for_a_single_batch() -> None:
    """CONTRIBUTING 7: the rest follows in the next one."""
    async with leading(open_replica(), 5) as leader:
        for letter in "abc":
            leader.produce(letter * 600)
        link = leader.link(push_bytes_max=1024)
        link.subscribe(subscribe(5, 0, -1))
        for sequence, letter in enumerate("abc", 1):
            assert _values(await _push(link)) == [letter * 600]
            link.acknowledge(sequence)


async def test_many_new_watermarks_are_announced_once() -> None:
    """CONTRIBUTING 7: a leader that commits faster than it pushes remembers it once a subscription."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        await _push(link)
        link.acknowledge(1)
        for value in "abc":
            leader.produce(value)
        assert _values(await _push(link)) == ["a", "b", "c"]
        link.acknowledge(2)
        for end in (1, 2, 3):
            link.progress([(1, end)])
        assert (await _push(link)).high_watermark == 3
        link.acknowledge(3)
        assert await _nothing_to_say(link)


# --- failures -----------------------------------------------------------------------------------------


async def test_a_log_that_cannot_be_read_ends_the_flow_with_its_reason() -> None:
    """CORRECTNESS E14."""
    files = MemoryFiles()
    replica = open_replica(files=files)

    def unreadable(operation: str, path: Path) -> int | None:
        if operation == "read":
            raise OSError(errno.EIO, "input/output error")
        return None

    async with leading(replica, 5) as leader:
        leader.produce("a")
        files.fault = unreadable
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        assert isinstance(await _error(link), StorageFailed)
        link.subscribe(subscribe(5, 0, -1, sub_id=2))
        link.acknowledge(1)
        assert isinstance(await _error(link), StorageFailed)


async def test_a_number_is_used_once_on_a_stream() -> None:
    """CORRECTNESS T6: it stands for (topic id, partition, epoch) in everything that follows."""
    async with leading(open_replica(), 5) as leader:
        link = leader.link()
        link.subscribe(subscribe(5, 0, -1))
        link.subscribe(subscribe(5, 0, -1))
        _, pushes = await link.next_message()
        assert [type(push.error) for push in pushes] == [InvalidRequest, type(None)]


async def test_retention_that_overtakes_a_follower_sends_it_to_the_start() -> None:
    """CORRECTNESS H9, H7: what it had still to be sent is gone."""
    replica = open_replica(TopicConfig(segment_bytes=1024))
    async with leading(replica, 5, isr=(1,)) as leader:
        link = leader.link(push_window=1)
        link.subscribe(subscribe(5, 0, -1))
        await _push(link)
        for letter in "abc":
            leader.produce(letter * 900, acks=1)
        replica.log.cutting.advance_start(2)
        link.acknowledge(1)
        error = await _error(link)
        assert isinstance(error, OffsetOutOfRange)
        assert error.limit == 2


async def test_a_batch_larger_than_a_message_is_sent_first_in_one_and_never_behind_others() -> None:
    """CORRECTNESS H10: a follower gets it, and a message has at most one such batch."""
    replica = open_replica()
    write(replica, 4, "small", "x" * 3_000, "y" * 3_000, "small")
    async with leading(replica, 5) as leader:
        link = leader.link(push_bytes_max=1_024, push_window=8)
        link.subscribe(subscribe(5, 0, 4))
        pushed = [_values(await _push(link)) for _ in range(4)]
    assert pushed == [["small"], ["x" * 3_000], ["y" * 3_000], ["small"]]


# --- beats --------------------------------------------------------------------------------------------


async def test_an_idle_stream_beats_and_records_come_after_the_beat() -> None:
    """CORRECTNESS E19: a message without pushes says that the leader is there."""
    async with leading(open_replica(), 5) as leader:
        link = leader.link()
        assert await _nothing_to_say(link)
        link.beat(0.0)
        assert await link.next_message() == (1, [])
        link.beat(0.0)
        assert await _nothing_to_say(link), "it has just spoken"
        link.subscribe(subscribe(5, 0, -1))
        assert (await link.next_message())[0] == 2
        link.close()
