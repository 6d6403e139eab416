"""The judge of topics whose brokers remove records finds each kind of fault (H9, T12)."""

from __future__ import annotations

import pytest

from strandline_lab.simulation.workloads.cleaning.judge import Found, Write, findings

WRITES = (
    Write(b"a", b"1", 0, 0),
    Write(b"b", b"2", 0, 1),
    Write(b"a", b"3", 0, 2),
    Write(b"b", None, 0, 3),
    Write(b"c", b"4"),  # its outcome is unknown
    Write(b"c", b"5", denied=True),
    Write(b"last", b"last", 0, 5),
)
WHOLE = (
    Found(0, 0, b"a", b"1"),
    Found(0, 1, b"b", b"2"),
    Found(0, 2, b"a", b"3"),
    Found(0, 3, b"b", None),
    Found(0, 4, b"c", b"4"),
    Found(0, 5, b"last", b"last"),
)
COMPACTED = (WHOLE[2], *WHOLE[4:])


def judged(
    log: tuple[Found, ...], policy: str, start: int = 0, followed: tuple[Found, ...] = WHOLE
) -> list[str]:
    return findings(WRITES, log, followed, {0: start}, {0: 6}, policy=policy)


@pytest.mark.parametrize(
    ("log", "policy", "start"),
    [
        (WHOLE, "compact", 0),
        (WHOLE, "delete", 0),
        (COMPACTED, "compact", 0),
        ((*COMPACTED[:1], WHOLE[3], *COMPACTED[1:]), "compact", 0),  # the tombstone is still there
        ((WHOLE[0], *COMPACTED), "compact", 0),
        (WHOLE[3:], "delete", 3),
        (WHOLE[4:], "compact,delete", 3),
    ],
)
def test_records_may_go_by_the_policy_of_the_topic(log: tuple[Found, ...], policy: str, start: int) -> None:
    assert judged(log, policy, start) == []


@pytest.mark.parametrize(
    ("log", "policy", "start", "finding"),
    [
        (
            WHOLE[4:],
            "compact",
            0,
            "key b'a' has None, not one of [\"b'3'\"], and offset 2 was acknowledged last",
        ),
        ((WHOLE[0], *WHOLE[4:]), "compact", 0, "key b'a' has b'1'"),
        ((*WHOLE[:3], *WHOLE[4:]), "compact", 0, "key b'b' has b'2'"),
        (WHOLE[3:], "compact", 3, "partition 0 starts at 3"),
        ((*WHOLE[3:4], WHOLE[5]), "delete", 3, "partition 0 lacks 1 records from 4 up to its end 6"),
        ((*COMPACTED[:-1],), "compact", 0, "key b'last' has None"),
        ((WHOLE[1], WHOLE[0], *WHOLE[2:]), "compact", 0, "has offset 0 of partition 0 after 1"),
        ((*WHOLE[:4], Found(0, 4, b"c", b"5"), WHOLE[5]), "compact", 0, "no writer can have written there"),
        ((WHOLE[0], Found(0, 1, b"b", b"x"), *WHOLE[2:]), "delete", 0, "and b'b'=b'2' was acknowledged"),
    ],
)
def test_each_fault_is_found(log: tuple[Found, ...], policy: str, start: int, finding: str) -> None:
    [found, *_] = judged(log, policy, start)
    assert finding in found


def test_a_record_that_only_a_reader_saw_is_judged_too() -> None:
    [found] = judged(COMPACTED, "compact", followed=(Found(0, 7, b"a", b"9"),))
    assert found == "offset 7 of partition 0 is b'a'=b'9', which no writer can have written there"
