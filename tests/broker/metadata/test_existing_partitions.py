"""A partition is missing only after a look, and nothing is kept of what does not exist (CORRECTNESS X6)."""

from __future__ import annotations

from collections import Counter
from typing import cast

from strandline.adapters.zookeeper import znodes
from strandline.broker.metadata.existing_partitions import ONE_BY_ONE_MAX, ExistingPartitions
from strandline.ids import TopicId, TopicPartition
from strandline.ports import ConnectionLost, Coordination, NoNode, Znode

AGE_S = 5.0


class Played:
    """ZooKeeper and the clock. Reads see a new topic only after a `sync`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.away = False
        self.calls: Counter[str] = Counter()
        self._made: dict[str, bytes] = {}
        self._seen: dict[str, bytes] = {}
        self.existing = ExistingPartitions(self.session, AGE_S, self)

    def make(self, topic: str, partitions: int) -> None:
        node = znodes.TopicNode(TopicId("i"), partitions, {})
        self._made[znodes.topic(topic)] = znodes.dump_topic(node)

    def delete(self, topic: str) -> None:
        del self._made[znodes.topic(topic)]

    def session(self) -> Coordination:
        if self.away:
            raise ConnectionLost("away")
        return cast(Coordination, self)

    async def missing(self, *names: tuple[str, int]) -> set[str]:
        return {str(name) for name in await self.existing.missing([TopicPartition(*name) for name in names])}

    # --- Coordination ------------------------------------------------------------------------

    async def sync(self, path: str) -> None:
        self.calls["sync"] += 1
        self._seen = dict(self._made)

    async def get(self, path: str) -> Znode:
        self.calls["get"] += 1
        if path not in self._seen:
            raise NoNode(path)
        return Znode(self._seen[path], version=0, czxid=1, mzxid=1, ephemeral_owner=0, children=0)

    async def children(self, path: str) -> list[str]:
        self.calls["children"] += 1
        return [path.rpartition("/")[2] for path in self._seen]

    # --- Clock -------------------------------------------------------------------------------

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here sleeps")


async def test_a_missing_partition_is_reported_and_an_existing_one_is_read_once() -> None:
    played = Played()
    played.make("t", 2)
    assert await played.missing(("t", 0), ("t", 1)) == set()
    before = played.calls.total()
    assert await played.missing(("t", 1)) == set()
    assert played.calls.total() == before
    assert await played.missing(("t", 2), ("t", -1), ("u", 0)) == {"t-2", "t--1", "u-0"}


async def test_a_topic_that_was_just_made_or_has_grown_is_not_missing() -> None:
    played = Played()
    assert await played.missing(("t", 0)) == {"t-0"}
    played.make("t", 1)
    assert await played.missing(("t", 0)) == set()
    played.make("t", 9)
    assert await played.missing(("t", 8)) == set()


async def test_a_topic_that_was_deleted_is_missing_after_a_while() -> None:
    played = Played()
    played.make("t", 1)
    await played.missing(("t", 0))
    played.delete("t")
    played.now += AGE_S
    assert await played.missing(("t", 0)) == {"t-0"}


async def test_nothing_is_missing_while_zookeeper_is_away() -> None:
    played = Played()
    played.away = True
    assert await played.missing(("t", 0)) == set()


async def test_names_that_do_not_exist_cost_one_list_and_no_memory() -> None:
    """And a name with a slash is no path of a znode."""
    played = Played()
    played.make("t", 1)
    names = [(f"no-{number}", 0) for number in range(ONE_BY_ONE_MAX * 50)] + [("t/0/isr", 0), ("t", 0)]
    assert len(await played.missing(*names)) == len(names) - 1
    assert played.calls == {"sync": 1, "children": 1, "get": 1}
    assert list(played.existing._found) == ["t"]
