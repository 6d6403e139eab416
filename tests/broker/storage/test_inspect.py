"""`strandline log dump` and `verify`: a log read with no broker."""

from __future__ import annotations

import tracemalloc
from dataclasses import asdict
from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.storage import inspect
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.segments.segment import file_name
from strandline.config.limits import DECOMPRESSED_BYTES_MAX, MIB
from strandline.errors import CorruptMessage, SettingsError
from strandline.records import HEADER_BYTES, Codec, PackedRecords, RecordFields, encode_batch, encode_values
from strandline.records.compression import compress
from tests.broker.storage.support.disk import SMALL, ManualClock, fill
from tests.strandline.cli.support.cli_process import strandline


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of four segments, closed cleanly."""
    log = PartitionLog.open(tmp_path, SMALL, clock=ManualClock(), clean=True, files=SYSTEM_FILES)
    log.appending.begin_epoch(3)
    log.appending.as_leader(
        encode_batch([(b"k", b"v", (("h", None),), 7)], codec=Codec.ZSTD, producer_id=5, producer_epoch=1,
                     base_sequence=0), 3, now_ms=0,
    )  # fmt: skip
    fill(log, 12)
    log.close(clean=True)
    return tmp_path


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_a_dump_has_every_batch_and_its_records(folder: Path) -> None:
    batches = list(inspect.dump(folder, files=SYSTEM_FILES))
    assert [batch.base_offset for batch in batches] == [0, *range(1, 25, 2)]
    assert all(batch.crc_valid for batch in batches)
    first = asdict(batches[0])
    assert (first["codec"], first["producer_id"], first["leader_epoch"], first["records"]) == (
        "zstd",
        5,
        3,
        1,
    )
    (record,) = inspect.records(batches[0], files=SYSTEM_FILES)
    assert (record.key, record.value, record.headers, record.timestamp) == (b"k", b"v", (), 7)
    records = [r for batch in batches for r in inspect.records(batch, files=SYSTEM_FILES)]
    assert [r.offset for r in records] == list(range(25))


def test_one_segment_file_can_be_looked_at(folder: Path) -> None:
    path = sorted(folder.glob("*.log"))[1]
    batches = list(inspect.dump(path, files=SYSTEM_FILES))
    assert {batch.file for batch in batches} == {str(path)}
    assert batches[0].base_offset == int(path.stem)
    assert list(inspect.verify(path, files=SYSTEM_FILES)) == []


def test_a_sound_log_has_no_findings(folder: Path, tmp_path: Path) -> None:
    assert list(inspect.verify(folder, files=SYSTEM_FILES)) == []
    log = PartitionLog.open(folder, SMALL, clock=ManualClock(), clean=True, files=SYSTEM_FILES)
    log.cutting.reset_to(100)
    log.close(clean=True)
    assert list(inspect.verify(folder, files=SYSTEM_FILES)) == []


def test_damage_of_every_kind_is_found(folder: Path) -> None:
    """E15: and named by file, position and offset."""
    logs = sorted(folder.glob("*.log"))
    flip(logs[1], 100)
    flip(sorted(folder.glob("*.index"))[0], 20)
    flip(sorted(folder.glob("*.snapshot"))[0], 5)
    flip(folder / "epochs", 12)
    flip(folder / "log.json", 0)
    logs[2].unlink()
    problems = [(Path(f.file).name, f.problem) for f in inspect.verify(folder, files=SYSTEM_FILES)]
    damaged = dict(problems)
    assert "CRC" in damaged[logs[1].name]
    assert "ends at offset" in damaged[logs[3].name]
    assert "damaged" in damaged["epochs"]
    assert {name.rpartition(".")[2] for name, _ in problems} >= {"index", "snapshot", "log"}
    assert any("log.json is damaged" in problem for _, problem in problems)
    (bad, *_) = inspect.verify(logs[1], files=SYSTEM_FILES)
    assert (bad.position, bad.offset) == (0, int(logs[1].stem))


def test_records_that_do_not_decode_are_found(tmp_path: Path) -> None:
    """A CRC says only that the bytes are those that the producer sent."""
    good = encode_values([b"abc"], 0)
    body = good[HEADER_BYTES:-1] + b"\x09"
    (tmp_path / file_name(0, ".log")).write_bytes(PackedRecords(body, 0, 1, 0, 0).seal())
    (finding,) = inspect.verify(tmp_path, files=SYSTEM_FILES)
    assert "malformed" in finding.problem


MANY_RECORDS = [(None, None, (), 0)] * 200_000
MANY_HEADERS = [(None, None, (("", None),) * 500_000, 0)]


@pytest.mark.parametrize("fields", [MANY_RECORDS, MANY_HEADERS], ids=["records", "headers"])
def test_memory_is_bounded_by_the_bytes_of_a_batch(tmp_path: Path, fields: list[RecordFields]) -> None:
    """A batch of some kilobytes may have millions of records, and a record millions of headers: all of them
    at once took gigabytes."""
    (tmp_path / file_name(0, ".log")).write_bytes(encode_batch(fields, codec=Codec.ZSTD))
    (batch,) = inspect.dump(tmp_path, files=SYSTEM_FILES)
    tracemalloc.start()
    try:
        assert list(inspect.verify(tmp_path, files=SYSTEM_FILES)) == []
        assert sum(1 for _ in inspect.records(batch, files=SYSTEM_FILES)) == len(fields)
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()


async def test_batches_that_cannot_be_shown_are_named_and_counted(tmp_path: Path) -> None:
    """The others are shown. A small batch may decompress to more than anyone reads."""
    large = compress(Codec.ZSTD, bytes(DECOMPRESSED_BYTES_MAX + 1))
    batches = PackedRecords(large, Codec.ZSTD, 1, 0, 0).seal(), encode_values([b"abc"], 0, base_offset=1)
    (tmp_path / file_name(0, ".log")).write_bytes(b"".join(batches))
    ended = await strandline("log", "dump", "--records", "-o", "json", str(tmp_path))
    assert [(each["offset"], "problem" in each) for each in ended.objects if "offset" in each] == [
        (0, True),
        (1, False),
    ]
    assert f"at most {DECOMPRESSED_BYTES_MAX} bytes" in ended.objects[1]["problem"]
    assert (ended.status, "the records of 1 of 2 batches cannot be shown" in ended.err) == (1, True)
    ended = await strandline("log", "verify", "-o", "json", str(tmp_path))
    assert [(each["offset"], ended.status) for each in ended.objects] == [(0, 1)]


def test_a_dump_stops_where_the_bytes_are_no_batch(folder: Path) -> None:
    path = sorted(folder.glob("*.log"))[1]
    path.write_bytes(path.read_bytes() + b"\x00" * 100)
    with pytest.raises(CorruptMessage, match="no batch"):
        list(inspect.dump(path, files=SYSTEM_FILES))


def test_a_path_without_a_log_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("")
    with pytest.raises(SettingsError, match="neither a segment"):
        list(inspect.dump(other, files=SYSTEM_FILES))
    assert list(inspect.dump(tmp_path, files=SYSTEM_FILES)) == []
