"""From one batch of a stream to the next: new partitions, topics that went, limits, and what is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.ids import TopicPartition
from strandline.pipeline.core.offsets import StreamOffset
from strandline.pipeline.core.progress import advance, behind, same_place, starts_in, step, until
from strandline.pipeline.core.ranges import OffsetRange

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": "first", "b": "of b"}


def at(offsets: dict[TopicPartition, int], ids: dict[str, str] = IDS, **more: object) -> StreamOffset:
    return StreamOffset(offsets, ids, **more)  # type: ignore[arg-type]  # only `since`


def read(begun: StreamOffset, ended: StreamOffset) -> list[tuple[int, int, int]]:
    return [(one.partition, one.start, one.end) for one in step(begun, ended).ranges if one.size]


def test_a_batch_is_what_lies_between_two_offsets() -> None:
    found = step(at({A0: 3, B0: 7}), at({A0: 5, B0: 7}))
    assert list(found.ranges) == [OffsetRange("a", 0, 3, 5, "first"), OffsetRange("b", 0, 7, 7, "of b")]
    assert not found.losses


def test_a_new_partition_is_read_from_its_first_record_on() -> None:
    assert read(at({A0: 3}), at({A0: 3, A1: 4})) == [(1, 0, 4)]


def test_a_deleted_topic_is_reported_as_a_loss_and_not_read() -> None:
    found = step(at({A0: 3, B0: 7}), at({A0: 4}))
    assert [str(loss) for loss in found.losses] == [
        "b-0 has lost from offset 7 on: the topic no longer exists"
    ]
    assert read(at({A0: 3, B0: 7}), at({A0: 4})) == [(0, 3, 4)]


def test_a_topic_that_was_created_again_is_a_loss_and_is_read_from_its_first_record_on() -> None:
    again = at({A0: 9}, {"a": "second"})
    found = step(at({A0: 3}), again)
    assert "the topic was deleted, and another one has its name now" in str(found.losses[0])
    assert list(found.ranges) == [OffsetRange("a", 0, 0, 9, "second")]
    assert starts_in(at({A0: 3, B0: 1}), {"a": "second", "b": "of b"}) == {B0: 1}


def test_the_first_batch_names_its_begin_and_is_read_from_there_even_if_more_comes_later() -> None:
    """A query that died in its first batch asks again where to begin, and `latest` is another place then."""
    end = advance(at({A0: 3}), at({A0: 9}), {}, most=None, first=True)
    assert end.since == {A0: 3}
    assert read(at({A0: 12}), end) == [(0, 3, 9)]
    second = advance(end, at({A0: 11}), {}, most=None, first=False)
    assert second.since is None
    assert read(end, second) == [(0, 9, 11)]


def test_an_unchanged_end_is_the_same_offset_though_the_first_batch_had_a_begin() -> None:
    end = advance(at({A0: 3}), at({A0: 9}), {}, most=None, first=True)
    assert same_place(end, advance(end, at({A0: 9}), {}, most=5, first=False))
    assert not same_place(end, at({A0: 9, A1: 0}))
    assert not same_place(end, at({A0: 9}, {"a": "second"}))


def test_a_limit_counts_a_topic_that_was_created_again_from_its_begin() -> None:
    again = at({A0: 10}, {"a": "second"})
    assert advance(at({A0: 8}), again, {}, most=4, first=False).offsets == {A0: 4}


def test_a_limit_does_not_count_deleted_records() -> None:
    """Else there would be batches without a record until the start of the log is reached."""
    end = advance(at({A0: 8}), at({A0: 1_000, A1: 50}), {A0: 900, A1: 40}, most=22, first=False)
    assert end.offsets == {A0: 919, A1: 43}
    assert read(at({A0: 8}), end) == [(0, 8, 919), (1, 0, 43)], "the loss is reported nevertheless"


def test_a_log_that_ends_before_what_was_read_is_noticed_unless_it_is_another_topic() -> None:
    assert behind(at({A0: 8, B0: 1}), at({A0: 7, B0: 1})) == [A0]
    assert behind(at({A0: 8}), at({A0: 7}, {"a": "second"})) == []
    assert behind(at({A0: 8}), at({})) == []


# --- availableNow -------------------------------------------------------------------------------


def test_records_after_the_target_are_not_read_yet() -> None:
    target = at({A0: 5, B0: 2})
    found = until(target, at({A0: 1}), at({A0: 9, A1: 4, B0: 2, TopicPartition("c", 0): 3}))
    assert found.offsets == {A0: 5, B0: 2}


def test_a_topic_recreated_after_the_target_has_no_records_of_it() -> None:
    assert until(at({A0: 5}), at({A0: 1}), at({A0: 9}, {"a": "second"})).offsets == {}


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_target_takes_nothing_back_that_was_read(begun: int, target: int, latest: int) -> None:
    found = until(at({A0: target}), at({A0: begun}), at({A0: latest})).offsets[A0]
    assert found <= latest
    assert found <= max(begun, target)
    if begun <= latest:
        assert found >= begun


@given(
    st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 300), min_size=1),
    st.integers(1, 50),
)
def test_limited_batches_reach_the_target_and_stop_there(
    target: dict[TopicPartition, int], most: int
) -> None:
    goal, now, batches = at(target), at({A0: 0}), 0
    while True:
        latest = until(goal, now, at({name: end + batches for name, end in target.items()}))
        end = advance(now, latest, {}, most=most, first=False)
        if same_place(now, end):
            break
        now, batches = end, batches + 1
        assert batches <= sum(target.values()) // most + 2
    assert dict(now.offsets) == target
