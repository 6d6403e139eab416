"""Assembles a broker's parts for consumer groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from types import TracebackType
from typing import Final, Self

from strandline.adapters.rpc.member_key import MemberKey
from strandline.broker.core.groups.coordinator import GroupOffsets
from strandline.broker.core.groups.effects import GroupEvent
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.groups.coordinators import Coordinators
from strandline.broker.groups.events import event_key, event_value
from strandline.broker.groups.handlers import GroupHandlers, TransactionAdmission
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.internal_topics import InternalTopics, group_events_topic
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.config.services.broker import BrokerSettings
from strandline.security.access import Access
from strandline.vocabulary.configs.groups import KnownGroupConfigs
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.transactions import Marker

FLUSH_S_MAX: Final = 1.0
"""The time for waiting events when the broker stops."""


class Groups:
    """Open from before the broker listens until after it led for the last time. `run` is its task."""

    def __init__(
        self,
        manager: ReplicaManager,
        view: ClusterView,
        topics: InternalTopics,
        endpoint: Endpoint,
        settings: BrokerSettings,
        holds_lease: Callable[[], bool],
        key: MemberKey,
        access: Access,
        admission: TransactionAdmission,
        configs: KnownGroupConfigs,
    ) -> None:
        self._clock = manager.host.clock
        self.events = topics.event_writer(group_events_topic(settings), endpoint, settings, key)
        self._coordinators = Coordinators(
            manager, settings, self._publish, holds_lease, view.topics_now, configs
        )
        manager.watchers.append(self._coordinators)
        self.handlers = GroupHandlers(manager, view, self._coordinators, topics, settings, access, admission)

    async def __aenter__(self) -> Self:
        await self.events.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.events.stop()

    async def run(self) -> None:
        await self._coordinators.run()

    def count(self) -> Counter[GroupState]:
        """Groups coordinated here, by state."""
        return Counter(state for partition in self._coordinators for state in partition.states())

    @property
    def loading(self) -> int:
        """Partitions of which this broker has to read the groups yet, or cannot read them."""
        return sum(not partition.active for partition in self._coordinators)

    def committed(self) -> Iterator[GroupOffsets]:
        """What each group that is coordinated here has committed."""
        return chain.from_iterable(partition.committed() for partition in self._coordinators)

    def marked(self, leadership: Leadership, marker: Marker) -> None:
        """A marker in the log of this leadership is committed: so are the groups' offsets in its transaction,
        or they are dropped."""
        self._coordinators.marked(leadership, marker)

    async def flush(self) -> None:
        """Try to write the waiting events before the broker stops."""
        await self.events.flush(FLUSH_S_MAX)

    def _publish(self, event: GroupEvent) -> None:
        # By this broker's clock: a member's may be wrong, and retention uses a record's time.
        self.events.put(event_key(event), event_value(event), self._clock.wall_ms())
