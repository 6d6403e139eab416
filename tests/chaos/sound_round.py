"""The files of a sound round: written like the real ones, with made-up content.

One topic with one partition and three brokers; broker 1 leads, dies, and broker 2 leads. Two producers, a
reader, a group of two whose partition changes hands, and a final reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.core.replication.epochs import EpochCache, EpochEntry
from strandline.broker.storage.segments.segment import LOG_SUFFIX, file_name
from strandline.broker.storage.state_files.checkpoint import Checkpoint
from strandline.broker.storage.state_files.epoch_file import write_epochs
from strandline.broker.storage.state_files.log_state import LogState
from strandline.broker.storage.state_files.partition_folder import Description, folder_name
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.records import encode_batch

TOPIC = "swell"
NAME = TopicPartition(TOPIC, 0)
KEY = PartitionKey(TopicId("5f0c"), PartitionId(0))
BROKERS = (1, 2, 3)
T0 = 1_795_336_400_000
RECORDS = 12
BATCH = 2
SECOND_EPOCH_AT = 6
SEGMENT_AT = 8
WATERMARK = RECORDS

Line = dict[str, Any]


def value(offset: int) -> str:
    """Even offsets are of the first producer, odd ones of the second."""
    return f"p{offset % 2 + 1}-{offset // 2}"


@dataclass(frozen=True, slots=True)
class Round:
    """Where it is."""

    out: Path
    logs: dict[int, Path]

    def folder(self, broker: int) -> Path:
        return self.logs[broker] / folder_name(NAME, KEY)

    def segment(self, broker: int, base: int = 0) -> Path:
        return self.folder(broker) / file_name(base, LOG_SUFFIX)

    def lines(self, name: str) -> list[Line]:
        return [json.loads(line) for line in (self.out / name).read_text().splitlines()]

    def write(self, name: str, lines: list[Line]) -> None:
        (self.out / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def change(self, name: str, change: Callable[[list[Line]], object]) -> None:
        lines = self.lines(name)
        change(lines)
        self.write(name, lines)


def make(folder: Path) -> Round:
    """All of it, in a folder."""
    made = Round(folder / "out", {broker: folder / f"broker-{broker}" for broker in BROKERS})
    made.out.mkdir()
    for broker in BROKERS:
        write_log(made, broker)
    _write_clients(made)
    _write_cluster(made)
    return made


# --- logs -------------------------------------------------------------------------------------


def batch(first: int, *, epoch: int, values: Callable[[int], str] = value) -> bytes:
    records = [(None, values(offset).encode(), (), T0) for offset in range(first, first + BATCH)]
    return encode_batch(records, base_offset=first, leader_epoch=epoch)


def epoch_of(offset: int) -> int:
    return 3 if offset < SECOND_EPOCH_AT else 4


def write_log(made: Round, broker: int, *, config: dict[str, str] | None = None, end: int = RECORDS) -> None:
    """The log of one broker; segments begin elsewhere in each, and the first broker has uncommitted
    records."""
    folder = made.folder(broker)
    folder.mkdir(parents=True, exist_ok=True)
    Description(NAME, KEY, config or {}).save(folder, files=SYSTEM_FILES)
    LogState(recovery_point=0).save(folder, files=SYSTEM_FILES)
    splits = [0, SEGMENT_AT] if broker == 2 else [0]
    for base, until in zip(splits, [*splits[1:], end], strict=True):
        data = b"".join(batch(first, epoch=epoch_of(first)) for first in range(base, until, BATCH))
        made.segment(broker, base).write_bytes(data)
    epochs = EpochCache([EpochEntry(3, 0), EpochEntry(4, SECOND_EPOCH_AT)])
    write_epochs(folder, epochs, files=SYSTEM_FILES)
    Checkpoint(made.logs[broker] / "watermarks", files=SYSTEM_FILES).write({folder.name: WATERMARK - BATCH})


# --- clients ----------------------------------------------------------------------------------


class _History:
    def __init__(self) -> None:
        self.lines: list[Line] = []

    def tell(self, event: str, at: int, **facts: Any) -> None:
        line = {"event": event, "seq": len(self.lines), "at": T0 + at, "monotonic_ms": float(at)}
        self.lines.append(line | {"topic": TOPIC} | facts)

    def receive(self, at: int, offsets: range) -> None:
        for offset in offsets:
            self.tell("received", at, partition=0, offset=offset, timestamp=T0, key=None, value=value(offset))

    def own(self, event: str, at: int, member: str, generation: int) -> None:
        self.tell(event, at, partitions=[0], member=member, generation=generation, at_ms=T0 + at)


def by_hand(event: str, at: int, offset: int) -> Line:
    """A member's own events of its work."""
    return {"event": event, "seq": 1, "at": T0 + at, "monotonic_ms": 0.0} | {
        "topic": TOPIC, "partition": 0, "offset": offset
    }  # fmt: skip


def _write_clients(made: Round) -> None:
    for number in (1, 2):
        producer = _History()
        for record in range(RECORDS // 2):
            offset = 2 * record + number - 1
            producer.tell("sent", 10 * offset, record=record, key=None, value=value(offset))
            producer.tell("acked", 10 * offset + 5, record=record, partition=0, offset=offset)
        producer.tell("summary", 200)
        made.write(f"produce-p{number}.jsonl", producer.lines)
    reader = _History()
    reader.tell("assigned", 0, partitions=[0])
    for offset in range(RECORDS):
        reader.receive(10 * offset + 7, range(offset, offset + 1))
    reader.tell("watermark", 150, partition=0, offset=RECORDS, proven=RECORDS)
    made.write("consume-assign-1.jsonl", reader.lines)
    first, second = _History(), _History()
    first.own("assigned", 1, "m1", 1)
    first.receive(80, range(8))
    first.own("revoked", 90, "m1", 2)
    second.own("assigned", 95, "m2", 3)
    second.receive(130, range(6, RECORDS))
    second.own("revoked", 190, "m2", 3)
    made.write("consume-group-tide-1.jsonl", first.lines)
    made.write("consume-group-tide-2.jsonl", second.lines)
    final = _History()
    final.tell("assigned", 300, partitions=[0])
    final.receive(301, range(RECORDS))
    made.write("final-swell.jsonl", final.lines)


# --- the cluster ------------------------------------------------------------------------------


def seen(at: int, leader: int, epoch: int, isr: list[int], hw: int | None) -> Line:
    where = {"at_ms": T0 + at, "observer": "admin", "topic": TOPIC, "partition": 0}
    return where | {"leader": leader, "epoch": epoch, "isr": isr, "hw": hw, "leo": hw}


def change(id: str, state: str, command: str, broker: int, epoch: int, at: int, **more: Any) -> Line:
    what = {"version": 1, "id": id, "command": command, "topic": TOPIC, "topic_id": "5f0c", "partition": 0}
    return what | {"broker": broker, "epoch": epoch, "state": state, "at": T0 + at, **more}


def group_event(event: str, generation: int, at: int, member: str = "", **more: Any) -> Line:
    said: Line = {"version": 1, "event": event, "group": "tide", "generation": generation, "at_ms": T0 + at}
    return said | ({"member": member} if member else {}) | more


def _write_cluster(made: Round) -> None:
    moments = [(0, "began"), (100, "healed"), (150, "settled"), (400, "ended")]
    made.write("timeline.jsonl", [{"at_ms": T0 + at, "event": event} for at, event in moments])
    made.write(
        "observations.jsonl",
        [
            seen(0, 1, 3, [1, 2, 3], 0),
            seen(50, 1, 3, [1, 2, 3], 5),
            seen(60, -1, 3, [2, 3], None),
            seen(70, 2, 4, [2, 3], 6),
            seen(180, 2, 4, [2, 3, 1], RECORDS),
        ],
    )
    offsets = [(40, 2), (85, 6), (140, 8), (195, RECORDS)]
    where = {"group": "tide", "topic": TOPIC, "partition": 0}
    made.write("committed.jsonl", [{"at_ms": T0 + at, "offset": offset, **where} for at, offset in offsets])
    asked = [
        change("r1", state, "start-replica", 3, 3, -9) for state in ("requested", "received", "completed")
    ]
    elections = [
        change("elect-3", "completed", "elect-leader", 1, 3, -8, isr=[1, 2, 3]),
        change("elect-4", "completed", "elect-leader", 2, 4, 65, isr=[2, 3]),
    ]
    made.write("state-changes.jsonl", [*asked, *elections])
    made.write(
        "group-events.jsonl",
        [
            group_event("generation_started", 1, 0),
            group_event("generation_stable", 1, 0),
            group_event("assigned", 1, 1, "m1", partitions={TOPIC: [0]}),
            group_event("revoked", 2, 90, "m1", partitions={TOPIC: [0]}),
            group_event("generation_started", 3, 93),
            group_event("generation_stable", 3, 94),
            group_event("assigned", 3, 95, "m2", partitions={TOPIC: [0]}),
            group_event("revoked", 3, 190, "m2", partitions={TOPIC: [0]}),
        ],
    )
