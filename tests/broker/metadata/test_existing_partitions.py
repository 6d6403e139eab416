"""A partition is missing only after a look, and nothing is kept of what does not exist (CORRECTNESS X6)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.broker.metadata.existing_partitions import ONE_BY_ONE_MAX, ExistingPartitions, TopicsNow
from strandline.ids import TopicId, TopicPartition
from strandline.ports import ConnectionLost, Coordination, NoNode, Znode

AGE_S = 5.0


class Played:
    """ZooKeeper and the clock. Reads see a new topic only after a `sync`."""

    def __init__(self) -> None:
        self.monotonic_s = 100.0
        self.away = False
        self.calls: Counter[str] = Counter()
        self._made: dict[str, bytes] = {}
        self._seen: dict[str, bytes] = {}
        self.changes = 0
        self.existing = ExistingPartitions(self.session, AGE_S, self)

    def make(self, topic: str, partitions: int, topic_id: str = "i", above_epoch: int = 3) -> None:
        node = znodes.TopicNode(TopicId(topic_id), partitions, {}, above_epoch=above_epoch)
        self.changes += znodes.topic(topic) not in self._made
        self._made[znodes.topic(topic)] = znodes.dump_topic(node)

    def delete(self, topic: str) -> None:
        del self._made[znodes.topic(topic)]
        self.changes += 1

    def pass_s(self, seconds: float) -> None:
        self.monotonic_s += seconds

    def session(self) -> Coordination:
        if self.away:
            raise ConnectionLost("away")
        return cast(Coordination, self)

    async def now(self, *names: tuple[str, int]) -> TopicsNow:
        return await self.existing.now([TopicPartition(*name) for name in names])

    async def missing(self, *names: tuple[str, int]) -> set[str]:
        return {str(name) for name in await self.existing.missing([TopicPartition(*name) for name in names])}

    # --- Coordination ------------------------------------------------------------------------

    async def sync(self, path: str) -> None:
        self.calls["sync"] += 1
        self._seen = dict(self._made)
        self._listed = self.changes

    async def get(self, path: str) -> Znode:
        await asyncio.sleep(0)
        if path == znodes.TOPICS:
            return Znode(b"", 0, 1, 1, 0, len(self._seen), self._listed)
        if path == znodes.EPOCH:
            return Znode(b"", version=7, czxid=1, mzxid=1, ephemeral_owner=0)
        self.calls["get"] += 1
        if path not in self._seen:
            raise NoNode(path)
        return Znode(self._seen[path], version=0, czxid=1, mzxid=1, ephemeral_owner=0, children=0)

    async def children(self, path: str) -> list[str]:
        self.calls["children"] += 1
        return [path.rpartition("/")[2] for path in self._seen]

    # --- Clock -------------------------------------------------------------------------------

    def monotonic(self) -> float:
        return self.monotonic_s

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
    played.pass_s(AGE_S)
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


# --- looks ---------------------------------------------------------------------------------------


async def test_a_look_finds_what_was_made_before_it_was_asked_for() -> None:
    """CORRECTNESS G18: however young the last reading is."""
    played = Played()
    played.make("t", 1, "old")
    assert (await played.now(("t", 0))).ids == {"t": "old"}
    played.delete("t")
    played.make("t", 1, "new", above_epoch=7)
    now = await played.now(("t", 0), ("u", 0))
    assert (now.ids, now.above_epochs, now.latest_epoch) == ({"t": "new"}, {"t": 7}, 7)
    assert now.has_no("u") and not now.has_no("t")
    assert now.missing([TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]) == {
        TopicPartition("t", 1),
        TopicPartition("u", 0),
    }


async def test_topics_are_not_read_again_while_none_comes_or_goes() -> None:
    """CORRECTNESS X6: a look costs two reads then, however many topics it is for, and however long ago."""
    played = Played()
    names = [(f"t-{number}", 0) for number in range(1_000)]
    for name, _ in names:
        played.make(name, 1)
    await played.now(*names)
    assert played.calls["get"] == 1_000
    for _ in range(3):
        played.pass_s(AGE_S * 0.9)
        await played.now(*names)
    assert played.calls["get"] == 1_000
    played.make("another", 1)
    await played.now(*names)
    assert played.calls["get"] == 2_000


async def test_a_topic_that_grew_has_its_new_partitions_at_the_next_look() -> None:
    played = Played()
    played.make("t", 1)
    assert not (await played.now(("t", 0))).missing([TopicPartition("t", 0)])
    played.make("t", 3)
    new = TopicPartition("t", 2)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(played.now(("t", 0)))
        second = tasks.create_task(played.now(("t", 2)))
    assert not second.result().missing([new])


async def test_of_a_topic_that_cannot_be_understood_nothing_is_known() -> None:
    """Its commits are neither refused nor absent."""
    played = Played()
    played.make("t", 1)
    played._made[znodes.topic("t")] = b"nonsense"
    now = await played.now(("t", 0))
    assert not now.has_no("t") and not now.missing([TopicPartition("t", 0)]) and not now.ids


async def test_what_a_look_found_outlives_its_age_until_it_is_told() -> None:
    """Another look may clean up between the end of a look and the turn of the caller that waited for it."""
    played = Played()
    played.make("t", 1)
    await played.now(("t", 0))
    played.pass_s(AGE_S - 0.001)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(played.now(("t", 0)))
        await asyncio.sleep(0)
        played.pass_s(0.01)
        second = tasks.create_task(played.now(("u", 0)))
    assert not first.result().has_no("t")
    assert second.result().has_no("u")


@pytest.mark.parametrize("step", range(12))
@pytest.mark.parametrize("kind", ["made anew", "deleted"])
async def test_a_look_that_races_with_a_change_finds_what_was_there_meanwhile(step: int, kind: str) -> None:
    """CORRECTNESS G18: wherever the change lands, and though the look is shared with a request that came
    earlier, the answer was true at a moment after the request came. So no commit gets an id that was old when
    it arrived."""
    played = Played()
    played.make("t", 1, "old")
    played.make("u", 1)
    await played.now(("t", 0))

    async def change() -> None:
        for _ in range(step):
            await asyncio.sleep(0)
        played.delete("t")
        if kind == "made anew":
            played.make("t", 1, "new")

    changed_before: list[bool] = []

    async def ask() -> TopicsNow:
        changed_before.append(changed.done())
        return await played.now(("t", 0))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(played.now(("u", 0)))
        changed = tasks.create_task(change())
        asked = []
        for _ in range(8):
            asked.append(tasks.create_task(ask()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    later = {"new"} if kind == "made anew" else {None}
    for done_before, each in zip(changed_before, asked, strict=True):
        assert each.result().ids.get("t") in (later if done_before else {"old", *later})
        assert "t" in each.result().looked
    assert {(await ask()).ids.get("t")} == later
