"""Transactions of a sound round: a member of a group makes an output of each of the first inputs.

Its first transaction is committed, the second one is aborted, and the third one does that work again. Each
has two outputs, in a log each.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.core.replication.epochs import EpochCache, EpochEntry
from strandline.broker.storage.segments.segment import LOG_SUFFIX, file_name
from strandline.broker.storage.state_files.epoch_file import write_epochs
from strandline.broker.storage.state_files.log_state import LogState
from strandline.broker.storage.state_files.partition_folder import Description, folder_name
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.records import iterate, pack, stamp
from strandline.records.control import WrittenMarker, encode_marker
from tests.chaos import sound_round
from tests.chaos.sound_round import T0, Line, Round

OUT, GROUP = "tide", "make"
HISTORY = "consume-group-make-1.jsonl"
PARTITIONS = (0, 1)
INPUTS = 4
EPOCH, PRODUCER = 5, 71
COMMITS = (True, False, True)
"""The ends of the three transactions."""
INPUT_OF = ((0, 1), (2, 3), (2, 3))
"""By transaction, the input of each output."""


def value(transaction: int, partition: int) -> str:
    return f"m-{2 * transaction + partition}"


def add(made: Round) -> Round:
    for partition in PARTITIONS:
        write_log(made, partition, COMMITS)
    made.write(HISTORY, _lines())
    made.write(f"final-{OUT}.jsonl", _read_finally())
    made.change("committed.jsonl", lambda lines: lines.append(committed(INPUTS)))
    return made


def committed(offset: int) -> Line:
    """The answer of the group's coordinator in the end."""
    return {"at_ms": T0 + 196, "group": GROUP, "topic": sound_round.TOPIC, "partition": 0, "offset": offset}


def write_log(made: Round, partition: int, commits: tuple[bool | None, ...]) -> None:
    """The same log on all brokers: a record and a marker of each transaction. None: no marker."""
    name = TopicPartition(OUT, partition)
    key = PartitionKey(TopicId("5f0d"), PartitionId(partition))
    data = b""
    offset = 0
    for transaction, commit in enumerate(commits):
        records = pack([(None, value(transaction, partition).encode(), (), T0)])
        data += _at(offset, records.seal(producer_id=PRODUCER, producer_epoch=0, transactional=True))
        offset += 1
        if commit is not None:
            marker = encode_marker(
                WrittenMarker(commit, 0), producer_id=PRODUCER, producer_epoch=0, timestamp_ms=T0
            )
            data += _at(offset, marker)
            offset += 1
    for folder in (logs / folder_name(name, key) for logs in made.logs.values()):
        _write(folder, Description(name, key, {}), data)


def _write(folder: Path, description: Description, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    description.save(folder, files=SYSTEM_FILES)
    LogState(recovery_point=0).save(folder, files=SYSTEM_FILES)
    (folder / file_name(0, LOG_SUFFIX)).write_bytes(data)
    write_epochs(folder, EpochCache([EpochEntry(EPOCH, 0)]), files=SYSTEM_FILES)


def _at(offset: int, batch: bytes) -> bytes:
    (header,) = iterate(batch)
    head = stamp(header, base_offset=offset, leader_epoch=EPOCH)
    return head + batch[len(head) :]


def _teller(lines: list[Line], begin: int) -> Callable[..., None]:
    def tell(event: str, topic: str, **facts: Any) -> None:
        at = begin + len(lines)
        line = {"event": event, "seq": len(lines), "at": T0 + at, "monotonic_ms": float(at), "topic": topic}
        lines.append(line | facts)

    return tell


def _read_finally() -> list[Line]:
    """Only what is committed."""
    lines: list[Line] = []
    tell = _teller(lines, 300)
    tell("assigned", OUT, partitions=[*PARTITIONS])
    for transaction, commits in enumerate(COMMITS):
        for partition in PARTITIONS if commits else ():
            what = {"timestamp": T0, "key": None, "value": value(transaction, partition)}
            tell("received", OUT, partition=partition, offset=2 * transaction, **what)
    return lines


def second_instead_of_third(lines: list[Line]) -> None:
    """What the final reader gets if the second transaction is committed, and the third aborted."""
    for line in lines[-len(PARTITIONS) :]:
        line.update(offset=2, value=value(1, line["partition"]))


def _lines() -> list[Line]:
    lines: list[Line] = []
    tell = _teller(lines, 20)
    tell("assigned", sound_round.TOPIC, partitions=[0], member="m7", generation=-1, at_ms=T0 + 20)
    for offset in range(INPUTS):
        what = {"timestamp": T0, "key": None, "value": sound_round.value(offset)}
        tell("received", sound_round.TOPIC, partition=0, offset=offset, **what)
    for transaction, commits in enumerate(COMMITS):
        for partition in PARTITIONS:
            source = [sound_round.TOPIC, 0, INPUT_OF[transaction][partition]]
            said = {"value": value(transaction, partition), "transaction": transaction, "source": source}
            tell("sent", OUT, record=2 * transaction + partition, key=None, **said)
        for partition in PARTITIONS:
            record = 2 * transaction + partition
            if commits:
                tell("acked", OUT, record=record, partition=partition, offset=2 * transaction)
            else:
                tell("failed", OUT, record=record, outcome="fatal")
    tell("commit_acked", sound_round.TOPIC, partition=0, offset=INPUTS)
    tell("revoked", sound_round.TOPIC, partitions=[0], member="m7", generation=-1, at_ms=T0 + 190)
    tell("summary", OUT)
    return lines
