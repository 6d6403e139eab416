"""The picture: drawn of anything that a round may leave behind, and what is wrong stands out in red."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from matplotlib.image import imread

from strandline.auditing.cluster import Observation
from strandline.ids import TopicPartition
from strandline.report.round_files import Moment
from strandline_lab.chaos.report.facts import facts_of
from strandline_lab.chaos.report.round_data import RoundData
from strandline_lab.report.events import Election, Reader, Sender, Sending, SendOutcome
from strandline_lab.report.facts import Facts
from strandline_lab.report.picture import ROWS_MAX, draw
from strandline_lab.report.spans import NOBODY

A = TopicPartition("a", 0)


def seen(at_ms: int, leader: int, hw: int | None, place: TopicPartition = A) -> Observation:
    return Observation(at_ms, "admin", *place, leader, 1, (1, 2), hw)


def round_of(*moments: Moment) -> RoundData:
    """Ten seconds of one partition."""
    sendings = tuple(Sending(at_ms, SendOutcome.ACKED, at_ms + 2, 2, A) for at_ms in range(0, 10_000, 100))
    return RoundData(
        "r",
        moments=(Moment(0, "began"), *moments, Moment(10_000, "ended")),
        observations=tuple(seen(at_ms, 1, at_ms // 100) for at_ms in range(0, 10_000, 250)),
        senders=(Sender("p", sendings),),
        readers=(Reader("c", tuple(range(0, 10_000, 100))),),
        findings=(),
    )


def red(facts: Facts, folder: Path) -> int:
    """How much of the picture is red."""
    draw(facts, folder / "chart.svg", folder / "chart.png")
    pixels = imread(folder / "chart.png")
    return int(((pixels[:, :, 0] > 0.7) & (pixels[:, :, 1] < 0.4) & (pixels[:, :, 2] < 0.4)).sum())


def test_findings_stand_out(tmp_path: Path) -> None:
    calm = round_of()
    quiet = red(facts_of(calm), tmp_path)
    observed = list(calm.observations)
    observed[8:16] = [replace(each, leader=NOBODY) for each in observed[8:16]]
    assert red(facts_of(replace(calm, observations=tuple(observed))), tmp_path) > quiet, "no leader"
    observed = [
        replace(each, watermark=3) if number == 30 else each for number, each in enumerate(calm.observations)
    ]
    assert red(facts_of(replace(calm, observations=tuple(observed))), tmp_path) > quiet, "a watermark fell"
    unclean = replace(calm, elections=(Election(5_000, A, 2, unclean=True),))
    assert red(facts_of(unclean), tmp_path) > quiet, "an unclean election"
    late = tuple(each for each in calm.senders[0].sendings if not 3_000 < each.sent_ms < 6_000)
    assert red(facts_of(replace(calm, senders=(Sender("p", late),))), tmp_path) > quiet, (
        "nothing acknowledged"
    )
    killed = Moment(1_000, "fault_began", 0, "kill", ("broker 2",))
    died = Moment(4_000, "died", who=("broker 2",))
    assert red(facts_of(round_of(killed, died)), tmp_path) > red(facts_of(round_of(killed)), tmp_path), (
        "it died"
    )


def test_partitions_beyond_the_limit_are_left_out_and_counted(tmp_path: Path) -> None:
    places = [TopicPartition("a", number) for number in range(ROWS_MAX + 3)]
    observed = tuple(seen(at_ms, 1, at_ms, place) for at_ms in (0, 900) for place in places)
    many = replace(round_of(), observations=observed)
    draw(facts_of(many), tmp_path / "chart.svg", tmp_path / "chart.png")
    drawn = (tmp_path / "chart.svg").read_text()
    assert f"<!-- a-{ROWS_MAX - 1} -->" in drawn
    assert f"<!-- a-{ROWS_MAX} -->" not in drawn
    assert "3 partitions left out" in drawn


def test_faults_of_one_member_at_the_same_time_have_rows_of_their_own(tmp_path: Path) -> None:
    pause = Moment(1_000, "fault_began", 0, "pause", ("broker 10",))
    one_way = Moment(2_000, "fault_began", 1, "one-way", ("broker 10", "broker 9"))
    nobody = Moment(3_000, "fault_began", 2, "reassign", ())
    draw(facts_of(round_of(nobody, one_way, pause)), tmp_path / "chart.svg", tmp_path / "chart.png")
    drawn = (tmp_path / "chart.svg").read_text()
    order = [drawn.index(f"<!-- {who} -->") for who in ("broker 9", "broker 10", "cluster")]
    assert order == sorted(order)
    assert drawn.count("<!-- one-way -->") == 2


def test_the_same_round_has_the_same_picture(tmp_path: Path) -> None:
    drawn = []
    for number in range(2):
        draw(facts_of(round_of()), tmp_path / f"{number}.svg", tmp_path / f"{number}.png")
        drawn.append((tmp_path / f"{number}.svg").read_bytes())
    assert drawn[0] == drawn[1]
