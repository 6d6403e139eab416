"""How long Kafka's messages take to read and to write, here and in another tree of strandline.

    python -m strandline_lab.bench.kafka.messages [TREE]

Both are loaded into one process and take turns, so that what else the machine does harms both alike. The
times are processor time, the shortest of all rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from strandline_lab.simulation.kafka.messages import frame

ROUNDS: Final = 15
ROUND_S: Final = 0.02
KAFKA: Final = "strandline.broker.kafka"
TOPICS: Final = 10
PARTITIONS: Final = 10
MEMBERS: Final = 20
VERSIONS: Final = {
    "METADATA": (8, 12),
    "JOIN_GROUP": (5, 9),
    "OFFSET_COMMIT": (7, 8),
    "HEARTBEAT": (3, 4),
    "PRODUCE": (7, 9),
    "FETCH": (11, 12),
}
"""A plain and a flexible one of each API."""


class Tree(NamedTuple):
    """The modules of one tree, by their names within the Kafka listener."""

    modules: dict[str, Any]

    @staticmethod
    def loaded(root: Path | None) -> Tree:
        """Of this tree if no other is named. The modules that were loaded before stay as they are."""
        before = {name: each for name, each in sys.modules.items() if name.split(".")[0] == "strandline"}
        if root is not None:
            for name in before:
                del sys.modules[name]
            sys.path.insert(0, str(root))
        names = ("router", "call", "wire.apis", "wire.header", "wire.metadata", "wire.fetch", "wire.produce")
        more = ("wire.topics", "wire.groups.membership", "wire.groups.offsets")
        found = {name: import_module(f"{KAFKA}.{name}") for name in (*names, *more)}
        if root is not None:
            sys.path.pop(0)
            sys.modules.update(before)
        return Tree(found)

    def reader(self, name: str, version: int) -> Callable[[], Any]:
        """Reads a request from a whole frame."""
        router = self.modules["router"].Router([self._api(name)])
        wire = getattr(import_module(f"{KAFKA}.wire.apis"), name)
        data = frame(wire, version, requests(Tree.loaded(None))[name], 1, "bench")[4:]
        return lambda: router.read(data)

    def writer(self, name: str, version: int) -> Callable[[], Any]:
        """Writes an answer as a whole frame."""
        api, answer = self._api(name), answers(self)[name]
        header = self.modules["wire.header"].RequestHeader(api.wire.key, version, 1, "bench")
        asked = self.modules["router"].Asked(api, header)
        return lambda: asked.answer(answer)

    def _api(self, name: str) -> Any:
        return self.modules["call"].Api(getattr(self.modules["wire.apis"], name), _unanswered)

    def topics(self, partitions: Iterable[Any]) -> tuple[Any, ...]:
        each = tuple(partitions)
        return tuple(self.modules["wire.topics"].OfTopic(f"topic-{n}", each) for n in range(TOPICS))


async def _unanswered(*_: object) -> None:
    raise AssertionError("nothing is handled here")


def requests(tree: Tree) -> dict[str, Any]:
    """A request of each API."""
    metadata, fetch, produce = (tree.modules[f"wire.{name}"] for name in ("metadata", "fetch", "produce"))
    members, offsets = (tree.modules[f"wire.groups.{name}"] for name in ("membership", "offsets"))
    numbers, member = range(PARTITIONS), "member-" + "m" * 36
    positions = (fetch.PartitionPosition(n, 3, 1_000, 1 << 20) for n in numbers)
    commits = (offsets.OffsetToCommit(n, 1_000, 3, "") for n in numbers)
    offered = tuple(members.OfferedProtocol(name, bytes(40)) for name in ("range", "roundrobin"))
    return {
        "METADATA": metadata.MetadataRequest(
            tuple(metadata.TopicWanted(f"topic-{n}") for n in range(TOPICS))
        ),
        "JOIN_GROUP": members.JoinGroupRequest("g", 10_000, 60_000, member, "consumer", offered),
        "OFFSET_COMMIT": offsets.OffsetCommitRequest("g", 3, member, tree.topics(commits)),
        "HEARTBEAT": members.HeartbeatRequest("g", 3, member),
        "PRODUCE": produce.ProduceRequest(-1, 1_000, tree.topics([produce.PartitionRecords(0, bytes(500))])),
        "FETCH": fetch.FetchRequest(500, 1, 1 << 20, 0, tree.topics(positions)),
    }


def answers(tree: Tree) -> dict[str, Any]:
    """An answer of each API."""
    metadata, fetch, produce = (tree.modules[f"wire.{name}"] for name in ("metadata", "fetch", "produce"))
    members, offsets = (tree.modules[f"wire.groups.{name}"] for name in ("membership", "offsets"))
    numbers = range(PARTITIONS)
    brokers = tuple(metadata.BrokerAddress(n, "10.0.0.1", 9_092) for n in (1, 2, 3))
    facts = tuple(metadata.PartitionFacts(n, 0, 1, 3, (1, 2, 3), (1, 2, 3)) for n in numbers)
    topics = tuple(metadata.TopicFacts(f"topic-{n}", partitions=facts) for n in range(TOPICS))
    joined = tuple(members.MemberOfGeneration(f"member-{n}", bytes(40)) for n in range(MEMBERS))
    return {
        "METADATA": metadata.MetadataAnswer(brokers, "cluster", 1, topics),
        "JOIN_GROUP": members.JoinGroupAnswer(0, 3, "consumer", "range", "member-1", "member-1", joined),
        "OFFSET_COMMIT": offsets.OffsetCommitAnswer(tree.topics(offsets.PartitionResult(n) for n in numbers)),
        "HEARTBEAT": members.HeartbeatAnswer(),
        "PRODUCE": produce.ProduceAnswer(tree.topics([produce.ProducedPartition(0, 0, 1_000, 0)])),
        "FETCH": fetch.FetchAnswer(
            tree.topics(fetch.FetchedPartition(n, 0, 9, 9, 0, bytes(500)) for n in numbers)
        ),
    }


def shortest_s(calls: list[Callable[[], Any]]) -> list[float]:
    """For one run of each call, which take turns."""
    count = 1
    while _took_s(calls[0], count) < ROUND_S:
        count *= 2
    rounds = [[_took_s(call, count) / count for call in calls] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _took_s(call: Callable[[], Any], count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - began


def main(other: Path | None) -> None:
    """Prints microseconds, and the ratio to the other tree's."""
    trees = [Tree.loaded(root) for root in ((None,) if other is None else (None, other))]
    print(f"{'':28}{'here':>10}{'there':>10}{'ratio':>8}" if other else f"{'':28}{'here':>10}")
    for name, versions in VERSIONS.items():
        for version in versions:
            for what, call in (("read", Tree.reader), ("write", Tree.writer)):
                times = shortest_s([call(tree, name, version) for tree in trees])
                ratio = f"{times[0] / times[1]:8.2f}" if other else ""
                label = f"{name} {version} {what}"
                print(f"{label:28}" + "".join(f"{each * 1e6:10.2f}" for each in times) + ratio)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
