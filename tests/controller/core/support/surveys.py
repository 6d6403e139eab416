"""Surveys as tests want them: brokers that live in life 100 + id, partitions as they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from strandline.controller.core.survey import StandingReassignment, Survey, SurveyedPartition
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.metadata import (
    Drain,
    Endpoint,
    IsrMember,
    PartitionState,
    Reassignment,
    Registration,
)

TOPIC_ID = TopicId("a" * 32)


def life(broker: int) -> BrokerEpoch:
    return BrokerEpoch(100 + broker)


def brokers(
    ids: Iterable[int], racks: Mapping[int, str], leaving: Sequence[int]
) -> dict[BrokerId, Registration]:
    return {
        BrokerId(i): Registration(Endpoint(i, "h", 9000 + i, racks.get(i, "")), life(i), i in leaving)
        for i in ids
    }


def partition(
    number: int,
    assigned: Sequence[int],
    isr: Sequence[int] | None = None,
    *,
    leader: int | None = None,
    epoch: int = 7,
    min_insync: int = 1,
    to: Sequence[int] | None = None,
    reverting: bool = False,
    throttle: int = 0,
    lives: Mapping[int, int] | None = None,
) -> SurveyedPartition:
    """Led by the first of the ISR unless `leader` is given; with `to` under way there from `assigned`."""
    members = tuple(assigned if isr is None else isr)
    state = PartitionState(
        BrokerId(members[0] if leader is None else leader),
        LeaderEpoch(epoch),
        tuple(IsrMember(BrokerId(b), BrokerEpoch((lives or {}).get(b, life(b)))) for b in members),
    )
    moving = None
    if to is not None:
        target, original = tuple(map(BrokerId, to)), tuple(map(BrokerId, assigned))
        moving = Reassignment(TOPIC_ID, target, original, throttle, reverting)
    now = tuple(map(BrokerId, assigned)) if moving is None else moving.grown
    key = PartitionKey(TOPIC_ID, PartitionId(number))
    return SurveyedPartition("t", key, now, state, min_insync, moving)


def survey(
    *partitions: SurveyedPartition,
    live: Iterable[int] = (1, 2, 3),
    dead: Iterable[int] = (),
    leaving: Sequence[int] = (),
    racks: Mapping[int, str] | None = None,
    drains: Mapping[int, Drain] | None = None,
    reassignments: Sequence[StandingReassignment] = (),
    noticed: Mapping[int, int] | None = None,
) -> Survey:
    """A cluster in which topic "t" is there."""
    registered = brokers(live, racks or {}, leaving)
    return Survey(
        registered,
        registered.keys() | {BrokerId(i) for i in dead},
        {BrokerId(i): drain for i, drain in (drains or {}).items()},
        {"t": TOPIC_ID},
        partitions,
        reassignments,
        {BrokerId(i): count for i, count in (noticed or {}).items()},
    )


def leads_nothing(broker: int) -> Drain:
    return Drain(life(broker), replicas=False)


def has_nothing(broker: int, throttle: int = 0) -> Drain:
    return Drain(life(broker), replicas=True, throttle_bytes_per_s=throttle)
