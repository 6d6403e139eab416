"""Offsets that are committed in transactions: Kafka's TxnOffsetCommit (KIP-98, KIP-447)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.errors import (
    FencedInstanceId,
    GenerationOfNoGroup,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidRequest,
    NotCoordinator,
    StrandlineError,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from strandline.ids import TopicId
from strandline.vocabulary.groups import CommittedOffset
from tests.broker.core.groups.support.stage import GROUP, LIMITS, Stage, partition

P0, P1, P2 = partition(0), partition(1), partition(2)
OLD, NEW = TopicId("0" * 31 + "1"), TopicId("0" * 31 + "2")
PRODUCER, OTHER = 7, 8
RETENTION_S = LIMITS.offsets_retention_ms / 1000


def same_when_loaded(stage: Stage) -> None:
    """The coordinator that takes over answers as this one."""
    loaded = stage.elsewhere()
    assert loaded.committed() == stage.committed()
    assert loaded.stable_offsets((P0, P1, P2)) == stage.stable_offsets((P0, P1, P2))
    assert (loaded.found() is None) == (stage.found() is None)


# --- pending, committed, aborted ----------------------------------------------------------------


def test_offsets_count_once_their_transaction_is_committed() -> None:
    """CORRECTNESS G22: from the commit's first moment on, a reader of stable offsets waits."""
    stage = Stage()
    stage.commit({P0: 1})
    stage.writing = False
    token = stage.commit({P0: 5, P1: 6}, producer_id=PRODUCER)
    assert stage.waits(token)
    unstable = {P0: UnstableOffsetCommit, P1: UnstableOffsetCommit, P2: None}
    assert stage.stable_offsets((P0, P1, P2)) == unstable
    stage.written()
    assert stage.answers[token] == {P0: None, P1: None}
    assert stage.committed() == {P0: 1} and stage.stable_offsets((P0, P1, P2)) == unstable
    assert stage.stable_offsets() == {P0: UnstableOffsetCommit}  # as Kafka: of the committed ones
    same_when_loaded(stage)
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == stage.stable_offsets() == {P0: 5, P1: 6}
    same_when_loaded(stage)


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    stage = Stage()
    stage.commit({P0: 1})
    stage.commit({P0: 5, P1: 6}, producer_id=PRODUCER)
    stage.ended(PRODUCER, commit=False)
    assert stage.committed() == {P0: 1} and stage.stable_offsets((P0, P1)) == {P0: 1, P1: None}
    same_when_loaded(stage)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_the_transaction_of_its_producer_alone(commit: bool) -> None:
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.commit({P1: 6}, producer_id=OTHER)
    stage.commit({P2: 7}, group="others", producer_id=PRODUCER)
    stage.ended(PRODUCER, commit=commit)
    assert stage.committed() == ({P0: 5} if commit else {})
    assert stage.committed("others") == ({P2: 7} if commit else {})
    assert stage.stable_offsets((P1,)) == {P1: UnstableOffsetCommit}
    same_when_loaded(stage)


def test_a_plain_commit_that_is_later_in_the_log_stays() -> None:
    """CORRECTNESS G23: the place of the offset counts, not that of the marker."""
    stage = Stage()
    stage.commit({P0: 5, P1: 5}, producer_id=PRODUCER)
    stage.commit({P0: 3})
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {P0: 3, P1: 5}
    same_when_loaded(stage)


def test_of_two_transactions_the_later_offset_stays() -> None:
    """CORRECTNESS G23: in whichever order they end."""
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.commit({P0: 6}, producer_id=OTHER)
    stage.ended(OTHER, commit=True)
    assert stage.committed() == {P0: 6} and stage.stable_offsets() == {P0: UnstableOffsetCommit}
    same_when_loaded(stage)
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == stage.stable_offsets() == {P0: 6}
    same_when_loaded(stage)


def test_the_last_offset_of_a_transaction_counts() -> None:
    stage = Stage()
    stage.commit({P0: 5, P1: 5}, producer_id=PRODUCER)
    stage.commit({P0: 4}, producer_id=PRODUCER)
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {P0: 4, P1: 5}
    same_when_loaded(stage)


def test_results_in_another_order_leave_what_the_log_says() -> None:
    """CORRECTNESS G12, G23"""
    stage = Stage()
    stage.writing = False
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.commit({P0: 6}, producer_id=PRODUCER)
    stage.commit({P1: 7}, producer_id=PRODUCER)
    stage.commit({P1: 8})
    first, second, third, plain = stage.wanted
    for append in (second, first, plain, third):
        stage.play(stage.core.appended(append.write_id, None, stage.now))
    stage.play(stage.core.transaction_ended(PRODUCER, stage.now, commit=True))
    assert stage.committed() == {P0: 6, P1: 8}


def test_a_commit_that_is_not_written_leaves_what_was_pending() -> None:
    """CORRECTNESS G12"""
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.writing = False
    token = stage.commit({P0: 6, P1: 6}, producer_id=PRODUCER)
    stage.failed()
    stage.answer(token, StrandlineError)
    assert stage.stable_offsets((P0, P1)) == {P0: UnstableOffsetCommit, P1: None}
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {P0: 5}
    same_when_loaded(stage)


def test_a_marker_of_a_transaction_without_offsets_changes_nothing() -> None:
    stage = Stage()
    stage.commit({P0: 1})
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {P0: 1}


def test_the_next_transaction_of_a_producer_is_another_one() -> None:
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.ended(PRODUCER, commit=True)
    stage.commit({P0: 9}, producer_id=PRODUCER)
    assert stage.committed() == {P0: 5}
    stage.ended(PRODUCER, commit=False)
    assert stage.committed() == stage.stable_offsets() == {P0: 5}
    same_when_loaded(stage)


def test_a_write_in_a_transaction_names_it() -> None:
    """The appender keeps it out of other batches."""
    stage = Stage()
    stage.writing = False
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.commit({P0: 6})
    in_transaction, plain = stage.wanted
    assert in_transaction.transaction is not None
    assert in_transaction.transaction.producer.producer_id == PRODUCER and plain.transaction is None


def test_offsets_are_refused_one_by_one() -> None:
    stage = Stage()
    token = stage.commit({P0: 5, P1: -1}, producer_id=PRODUCER)
    results = stage.answer(token, dict)
    assert results[P0] is None and isinstance(results[P1], InvalidRequest)
    assert stage.stable_offsets((P0, P1)) == {P0: UnstableOffsetCommit, P1: None}


def test_after_the_leadership_a_marker_changes_nothing() -> None:
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.unload()
    stage.play(stage.core.transaction_ended(PRODUCER, stage.now, commit=True))
    assert isinstance(stage.answers[stage.commit({P0: 1})], NotCoordinator)


# --- fencing ------------------------------------------------------------------------------------


def test_a_client_that_names_no_member_is_fenced_by_its_transactional_id() -> None:
    """KIP-447: as from Kafka, also while the group has members."""
    stage = Stage()
    stage.stable("a")
    assert stage.answers[stage.commit({P0: 5}, producer_id=PRODUCER)] == {P0: None}


def test_a_member_of_the_generation_may_commit_in_a_transaction() -> None:
    stage = Stage()
    generation = stage.stable("a")
    assert stage.answers[stage.commit({P0: 5}, "a", generation, producer_id=PRODUCER)] == {P0: None}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_rebalance_does_not_keep_members_from_it(state: str) -> None:
    """As from Kafka: producers take REBALANCE_IN_PROGRESS for fatal, and readers of stable offsets wait."""
    stage = Stage()
    generation = stage.stable("a")
    entered = stage.enter("b")
    if state == "CompletingRebalance":
        stage.join("a")
        generation += 1
        assert not stage.waits(entered)
    assert stage.state == state
    assert stage.answers[stage.commit({P0: 5}, "a", generation, producer_id=PRODUCER)] == {P0: None}


@pytest.mark.parametrize("later", [-1, 1])
def test_a_member_of_another_generation_is_fenced(later: int) -> None:
    """CORRECTNESS G1"""
    stage = Stage()
    generation = stage.stable("a")
    token = stage.commit({P0: 5}, "a", generation + later, producer_id=PRODUCER)
    stage.answer(token, IllegalGeneration)
    assert stage.stable_offsets((P0,)) == {P0: None}


def test_a_member_that_waits_for_the_next_generation_is_fenced_without_a_rebalance_error() -> None:
    """CORRECTNESS G1: a plain commit gets RebalanceInProgress there, which a producer takes for fatal."""
    stage = Stage()
    generation = stage.stable("a")
    stage.writing = False
    stage.enter("b")
    stage.join("a")
    assert stage.generation == generation + 1
    stage.answer(stage.commit({P0: 5}, "a", generation, producer_id=PRODUCER), IllegalGeneration)


@pytest.mark.parametrize("generation", [1, -1])
def test_a_member_that_the_group_does_not_have_is_fenced(generation: int) -> None:
    """CORRECTNESS G1"""
    stage = Stage()
    stage.stable("a")
    stage.answer(stage.commit({P0: 5}, "b", generation, producer_id=PRODUCER), UnknownMemberId)


def test_an_instance_that_is_another_member_by_now_is_fenced() -> None:
    """CORRECTNESS G1, KIP-345"""
    stage = Stage()
    stage.sync_all({"old": stage.join("", "old", instance="i")})
    stage.join("", "new", instance="i")
    token = stage.commit({P0: 5}, "old", stage.generation, instance="i", producer_id=PRODUCER)
    stage.answer(token, FencedInstanceId)


def test_an_empty_group_takes_it_from_any_client() -> None:
    stage = Stage()
    token = stage.commit({P0: 5}, "anybody", instance="i", producer_id=PRODUCER)
    assert stage.answers[token] == {P0: None}


def test_a_generation_of_a_group_that_is_not_known_is_fenced() -> None:
    stage = Stage()
    stage.answer(stage.commit({P0: 5}, "a", 3, producer_id=PRODUCER), GenerationOfNoGroup)


# --- deletion, expiry, topics -------------------------------------------------------------------


def test_deleted_offsets_go_with_what_is_pending() -> None:
    stage = Stage()
    stage.commit({P0: 1})
    stage.commit({P0: 5, P1: 6, P2: 7}, producer_id=PRODUCER)
    assert stage.answer(stage.delete_offsets(P0, P1), dict) == {P0: None, P1: None}
    assert stage.stable_offsets((P0, P1, P2)) == {P0: None, P1: None, P2: UnstableOffsetCommit}
    same_when_loaded(stage)
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {P2: 7}
    same_when_loaded(stage)


def test_a_commit_after_the_deletion_is_pending_again() -> None:
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.writing = False
    stage.delete_offsets(P0)
    stage.commit({P0: 6}, producer_id=PRODUCER)
    stage.written()
    stage.written()
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {P0: 6}
    same_when_loaded(stage)


def test_the_result_of_a_deletion_may_come_after_that_of_a_later_commit() -> None:
    """CORRECTNESS G12: the log has them in the order of their writes."""
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.writing = False
    stage.delete_offsets(P0)
    stage.commit({P0: 6}, producer_id=PRODUCER)
    for append in reversed(stage.wanted):
        stage.play(stage.core.appended(append.write_id, None, stage.now))
    stage.play(stage.core.transaction_ended(PRODUCER, stage.now, commit=True))
    assert stage.committed() == {P0: 6}


def test_a_deleted_offset_does_not_come_back_with_the_late_result_of_an_earlier_commit() -> None:
    """CORRECTNESS G12"""
    stage = Stage()
    stage.writing = False
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.delete_offsets(P0)
    for append in reversed(stage.wanted):
        stage.play(stage.core.appended(append.write_id, None, stage.now))
    stage.play(stage.core.transaction_ended(PRODUCER, stage.now, commit=True))
    assert stage.committed() == {}


def test_a_deleted_group_goes_with_what_is_pending() -> None:
    stage = Stage()
    stage.commit({P0: 1})
    stage.commit({P0: 5, P1: 6}, producer_id=PRODUCER)
    assert stage.answers[stage.delete()] is None
    assert isinstance(stage.describe_error(), GroupIdNotFound)
    same_when_loaded(stage)
    stage.ended(PRODUCER, commit=True)
    assert stage.found() is None
    same_when_loaded(stage)


def test_an_offset_with_another_one_pending_does_not_expire() -> None:
    """And neither does its group."""
    stage = Stage()
    stage.commit({P0: 1, P1: 2})
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.later(RETENTION_S + 120)
    assert stage.committed() == {P0: 1}
    stage.ended(PRODUCER, commit=False)
    stage.later(120)
    assert stage.found() is None
    same_when_loaded(stage)


def test_a_group_with_nothing_but_pending_offsets_does_not_expire() -> None:
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.later(RETENTION_S + 120)
    assert stage.describe().state == "Empty"
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {P0: 5}
    same_when_loaded(stage)


def test_a_group_that_is_left_without_offsets_is_forgotten() -> None:
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    stage.ended(PRODUCER, commit=False)
    assert stage.found() is None
    same_when_loaded(stage)


def of_topic(offset: int, topic_id: TopicId) -> CommittedOffset:
    return CommittedOffset(offset, topic_id=topic_id)


def test_offsets_of_a_deleted_topic_go_with_what_is_pending() -> None:
    """CORRECTNESS G18"""
    stage = Stage()
    stage.commit({P0: 1})
    stage.commit({P0: 5, P1: 6, partition(0, "letters"): 7}, producer_id=PRODUCER)
    stage.play(stage.core.follow_topics(SeenTopics(stage.core.mark, frozenset({"words"})), stage.now))
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {partition(0, "letters"): 7}
    same_when_loaded(stage)


def test_a_pending_offset_of_another_incarnation_is_removed() -> None:
    """CORRECTNESS G18"""
    stage = Stage()
    stage.commit({P0: of_topic(5, OLD)}, producer_id=PRODUCER)
    stage.play(stage.core.follow_topics(SeenTopics(stage.core.mark, ids={"words": NEW}), stage.now))
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {}


@pytest.mark.parametrize("written", [True, False])
def test_a_pending_offset_of_the_present_topic_is_not_removed_with_one_of_the_old(written: bool) -> None:
    """CORRECTNESS G18: a removal would take both."""
    stage = Stage()
    stage.commit({P0: of_topic(1, OLD)})
    stage.writing = written
    stage.commit({P0: of_topic(5, NEW)}, producer_id=PRODUCER)
    stage.play(stage.core.follow_topics(SeenTopics(stage.core.mark, ids={"words": NEW}), stage.now))
    if not written:
        stage.written()
    stage.ended(PRODUCER, commit=True)
    assert stage.committed() == {P0: 5}


def test_a_pending_offset_without_a_topic_id_gets_that_of_the_topic() -> None:
    """CORRECTNESS G18"""
    stage = Stage()
    stage.commit({P0: 5}, producer_id=PRODUCER)
    assert next(iter(stage.core.committed())).offsets.pending.of(P0)[PRODUCER].committed.topic_id == ""
    stage.play(stage.core.follow_topics(SeenTopics(stage.core.mark, ids={"words": OLD}), stage.now))
    stage.ended(PRODUCER, commit=True)
    committed = stage.offsets()[P0]
    assert committed is not None and committed.topic_id == OLD


# --- bounds -------------------------------------------------------------------------------------


def test_pending_offsets_take_room_until_their_transactions_end() -> None:
    stage = Stage(replace(LIMITS, group_state_bytes_max=3_000))
    text = "m" * 1_000
    stage.commit({P0: CommittedOffset(1, metadata=text)}, producer_id=PRODUCER)
    full = stage.answer(stage.commit({P1: CommittedOffset(1, metadata=text)}, producer_id=OTHER), dict)
    assert isinstance(full[P1], InvalidRequest) and full[P1].limit == 3_000
    again = stage.answer(stage.commit({P0: CommittedOffset(2, metadata=text)}, producer_id=PRODUCER), dict)
    assert again == {P0: None}
    stage.ended(PRODUCER, commit=False)
    token = stage.commit({P1: CommittedOffset(1, metadata=text)}, producer_id=OTHER)
    assert stage.answers[token] == {P1: None}


def test_a_group_of_many_producers_is_left_with_nothing() -> None:
    stage = Stage()
    for producer_id in range(1_000):
        stage.commit({P0: producer_id, partition(producer_id): 1}, producer_id=producer_id)
    for producer_id in reversed(range(1_000)):
        stage.ended(producer_id, commit=False)
    assert stage.found(GROUP) is None
