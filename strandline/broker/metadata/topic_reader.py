"""Reads one topic from ZooKeeper: its node, and its partitions with the lives of their leaders.

Nearly all partitions are as they were a few seconds ago: only those are decoded that were written since.

The leader of record is named only while its broker is registered in the life in which it was elected. Without
that registration the leadership has ended, even if `isr` still names it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.ports import NoNode, Znode
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import PartitionMetadata, Registration

T = TypeVar("T")

Live = Mapping[BrokerId, Registration]
Lives = dict[int, BrokerEpoch]
"""For each partition the life in which its leader was elected; no entry for a partition without a leader."""


class Led(NamedTuple):
    """What `isr` says of a partition's leadership."""

    leader: BrokerId
    epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    life: BrokerEpoch | None
    """In which the leader was elected, as a member of the ISR; None without a leader."""


class Decoded(NamedTuple, Generic[T]):
    """What a znode held."""

    value: T
    mzxid: int
    """The transaction that wrote it; while it is the znode's last one, the znode holds the same."""


class PartitionRead(NamedTuple):
    """The znodes of one partition, as they were last read."""

    assigned: Decoded[tuple[BrokerId, ...]]
    """AR; empty if it is unreadable."""
    led: Decoded[Led]


NEVER_LED: Final = Led(NO_BROKER, NO_EPOCH, (), None)
UNREAD: Final = PartitionRead(Decoded((), -1), Decoded(NEVER_LED, -1))


class TopicReader:
    """Reads through `get`, which raises NoNode, ConnectionLost or SessionEnded; so do the calls here.

    `live` returns the registrations known here: a new mapping after each change. Readers of one broker share
    the log of `unreadable` znodes.
    """

    def __init__(
        self, get: Callable[[str], Awaitable[Znode]], live: Callable[[], Live], unreadable: UnreadableLog
    ) -> None:
        self._get = get
        self._live = live
        self._unreadable = unreadable

    async def node(self, name: str) -> znodes.TopicNode:
        """The topic's own znode. Raises UnreadableZnode too."""
        return znodes.load_topic(name, (await self._get(znodes.topic(name))).data)

    async def partitions(
        self,
        name: str,
        numbers: Sequence[int],
        last: Mapping[int, PartitionRead],
        *,
        states_only: bool = False,
    ) -> dict[int, PartitionRead]:
        """Reads these partitions. `last` has earlier readings, also those of an earlier topic of this name.
        `states_only`: AR stays as it is there, unless the ISR shows that it has changed."""

        async def read(number: int) -> PartitionRead:
            before = last.get(number, UNREAD)
            led = await self._led(name, number, before)
            assigned = before.assigned
            if not (states_only and assigned.value and set(assigned.value).issuperset(led.value.isr)):
                assigned = await self._assigned(name, number, before)
            return PartitionRead(assigned, led)

        found = await pipelined(read, numbers, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return dict(zip(numbers, found, strict=True))

    async def with_leaders(
        self, read: Mapping[int, PartitionRead]
    ) -> tuple[dict[int, PartitionMetadata], Lives]:
        """The partitions for clients, whose leaders are those of record that live."""
        registered = await self._lives_of(each.led.value for each in read.values())
        partitions: dict[int, PartitionMetadata] = {}
        lives: Lives = {}
        for number, (assigned, decoded) in read.items():
            led = decoded.value if assigned.value else NEVER_LED
            leader = NO_BROKER
            if led.life is not None and registered.get(led.leader) == led.life:
                leader, lives[number] = led.leader, led.life
            partitions[number] = PartitionMetadata(number, leader, led.epoch, assigned.value, led.isr)
        return partitions, lives

    async def _assigned(self, name: str, number: int, last: PartitionRead) -> Decoded[tuple[BrokerId, ...]]:
        def load(data: bytes) -> tuple[BrokerId, ...]:
            return znodes.load_replicas(name, number, data)

        return await self._decoded(znodes.replicas(name, number), last.assigned, load, ())

    async def _led(self, name: str, number: int, last: PartitionRead) -> Decoded[Led]:
        """An unreadable partition gets no leader, so that the topic's other partitions still work."""

        def load(data: bytes) -> Led:
            state = isr_znodes.load_isr(name, number, data)
            life = next((each.broker_epoch for each in state.isr if each.broker == state.leader), None)
            return Led(state.leader, state.leader_epoch, state.isr_ids, life)

        return await self._decoded(znodes.isr(name, number), last.led, load, NEVER_LED)

    async def _decoded(
        self, path: str, last: Decoded[T], load: Callable[[bytes], T], unreadable: T
    ) -> Decoded[T]:
        node = await self._get(path)
        if node.mzxid == last.mzxid:
            return last
        try:
            return Decoded(load(node.data), node.mzxid)
        except znodes.UnreadableZnode as error:
            self._unreadable.report(error)
            return Decoded(unreadable, node.mzxid)

    async def _lives_of(self, states: Iterable[Led]) -> dict[BrokerId, BrokerEpoch | None]:
        """The life in which each leader is registered. A leader that this broker does not know to be alive
        may have registered recently. So ZooKeeper is asked after `isr` was read, and its answer is no older
        than that."""
        live = self._live()
        lives: dict[BrokerId, BrokerEpoch | None] = {}
        unknown: set[BrokerId] = set()
        for state in states:
            registration = live.get(state.leader)
            if registration is not None and registration.epoch == state.life:
                lives[state.leader] = registration.epoch
            elif state.leader != NO_BROKER:
                unknown.add(state.leader)
        asked = sorted(unknown)
        found = await pipelined(self._life_of, asked, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return lives | dict(zip(asked, found, strict=True))

    async def _life_of(self, broker: BrokerId) -> BrokerEpoch | None:
        """The life in which a broker is registered now; None if it is not."""
        try:
            node = await self._get(znodes.broker(broker))
        except NoNode:
            return None
        return BrokerEpoch(node.czxid)
