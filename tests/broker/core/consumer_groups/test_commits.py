"""Commits in transactions, of members whose coordinator assigns (KIP-447, KIP-848)."""

from __future__ import annotations

from typing import Any

from strandline.broker.core.groups.requests import Commit
from strandline.errors import IllegalGeneration, UnknownMemberId
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit
from strandline.vocabulary.log import NO_MARKER, ProducerIdentity, Transactional
from tests.broker.core.consumer_groups.play import GROUP, Play

IN_TRANSACTION = Transactional(ProducerIdentity(7, 0), NO_MARKER)


def test_a_producer_commits_in_the_epoch_of_its_member() -> None:
    """Another epoch is an illegal generation: producers know no other error of a member that is behind. One
    that names no member is not compared."""
    play = Play()
    play.make("t", 1)
    play.join("a", ("t",))

    def commit(member: str, epoch: int) -> Any:
        asked = OffsetCommit(GROUP, member, epoch, {TopicPartition("t", 0): CommittedOffset(1)})
        return play.stage.answers[play.stage.ask(Commit(asked, transaction=IN_TRANSACTION))]

    assert isinstance(commit("a", 1), IllegalGeneration)
    assert isinstance(commit("b", 2), UnknownMemberId)
    for member, epoch in (("a", 2), ("", -1)):
        assert commit(member, epoch) == {TopicPartition("t", 0): None}
