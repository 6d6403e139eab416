"""What a coordinator keeps of a group of the consumer protocol besides the group: calls that wait for the
log, and callers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from strandline.broker.core.consumer_groups.group import ConsumerGroup, ConsumerGroupState
from strandline.broker.core.consumer_groups.records import ConsumerKey
from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.state.states import GroupState
from strandline.security.principal import Principal
from strandline.vocabulary.groups import ConsumerBeat

Waiting = list[tuple[Call[Any], Any]]
"""Calls with their answers."""


COUNTED_AS: Final = {
    ConsumerGroupState.EMPTY: GroupState.EMPTY,
    ConsumerGroupState.ASSIGNING: GroupState.PREPARING_REBALANCE,
    ConsumerGroupState.RECONCILING: GroupState.PREPARING_REBALANCE,
    ConsumerGroupState.STABLE: GroupState.STABLE,
}
"""States of groups whose coordinator assigns, as metrics count them."""


@dataclass(slots=True)
class Consumers:
    """`writes`: those in flight, in their order, with the calls that wait for each and for all before it."""

    core: ConsumerGroup = field(default_factory=ConsumerGroup)
    writes: dict[int, Waiting] = field(default_factory=dict)
    unsure: dict[ConsumerKey, None] = field(default_factory=dict)
    """Subjects of writes that failed: the log may have any of their records."""
    held: dict[str, Call[ConsumerBeat]] = field(default_factory=dict)
    """Heartbeats without news, by member."""
    classic_held: dict[str, Call[None]] = field(default_factory=dict)
    """Those of members of the classic protocol."""
    principals: dict[str, Principal | None] = field(default_factory=dict)
    """By member, where callers are distinguished."""
    latest: bool = False
    """While the log is read: the group's epoch was written after its last generation."""
    begun: int = 0
    """The last epoch whose target was published."""
    settled: int = 0
    """The last epoch that was published as stable."""
    gave_up_last: tuple[str, str] = "", ""
    """The member for which others waited last in the epoch under way, and its name for people."""
    bytes: int = 0
    """As they are counted in those of the coordinator."""
