"""Which hangs of a round are judged: those of one broker, while nothing else was wrong."""

from __future__ import annotations

from strandline.report.round_files import Moment
from strandline_lab.auditing.succession import Hang
from strandline_lab.chaos.core.hangs import CALM_MS, lone_hangs

WITHIN_MS = 6_000


def fault(number: int, kind: str, begins: int, ends: int | None, *who: str) -> list[Moment]:
    began = Moment(begins, "fault_began", number, kind, who)
    return [began] if ends is None else [began, Moment(ends, "fault_ended", number, kind, who)]


def hangs(*faults: list[Moment]) -> list[Hang]:
    moments = [each for of_fault in faults for each in of_fault]
    return lone_hangs([*moments, Moment(90_000, "healed")], within_ms=WITHIN_MS)


def test_a_hang_lasts_until_its_end_or_until_all_is_healed() -> None:
    assert hangs(fault(0, "pause", 1_000, 9_000, "broker 2")) == [Hang(2, 1_000, 9_000)]
    assert hangs(fault(0, "disconnect", 1_000, None, "broker 2")) == [Hang(2, 1_000, 90_000)]


def test_only_brokers_hang() -> None:
    assert hangs(fault(0, "pause", 1_000, 9_000, "controller 1")) == []
    assert hangs(fault(0, "kill", 1_000, 9_000, "broker 2")) == []


def test_beside_other_faults_and_soon_after_them_nothing_is_judged() -> None:
    hang = fault(0, "pause", 20_000, 29_000, "broker 2")
    before, after = 20_000 - CALM_MS, 20_000 + WITHIN_MS
    assert hangs(hang, fault(1, "kill", 1_000, before, "zookeeper 1")) == []
    assert hangs(hang, fault(1, "kill", after, 40_000, "broker 1")) == []
    assert hangs(hang, fault(1, "kill", 1_000, before - 1, "zookeeper 1")) == [Hang(2, 20_000, 29_000)]
    assert hangs(hang, fault(1, "kill", after + 1, 40_000, "broker 1")) == [Hang(2, 20_000, 29_000)]
