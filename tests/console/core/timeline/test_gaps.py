"""A leader is not shown as known while no broker answers, or while it is away itself."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core.timeline.explanation import explain
from strandline.console.core.timeline.gaps import Gap, parted
from strandline.console.core.timeline.lanes.steps import Step
from strandline.console.core.timeline.places import NO_REF, Source, parse_id
from strandline.console.core.window import Window
from strandline.ids import BrokerEpoch
from strandline.vocabulary.admin import BrokerDescription
from strandline.vocabulary.metadata import Endpoint
from tests.console.core.timeline.events import AT, change, elected
from tests.console.core.timeline.test_window import lane, window_of

NOBODY = "no broker answers"
SILENT_MS, AWAY_MS, ANSWER_MS, BACK_MS = AT + 10_000, AT + 16_000, AT + 60_000, AT + 65_000


def see_brokers(window: Window, at_ms: int, *, alive: bool) -> None:
    brokers = [
        BrokerDescription(Endpoint(each, "b", 9092), BrokerEpoch(5), False, 0, alive=alive, drained=False)
        for each in (1, 2)
    ]
    window.seen_brokers(brokers, 101, at_ms)


def led() -> Window:
    window = window_of(elected(0, 2, 23, AT, isr=[1, 2]))
    see_brokers(window, AT, alive=True)
    return window


def parts(items: list[dict[str, Any]]) -> list[tuple[int, int | None, str]]:
    """From when until when, since AT, and why it is not known: empty if it is."""
    since = [(each["from"] - AT, each["until"], each.get("unknown", "")) for each in items]
    return [(began, None if ended is None else ended - AT, why) for began, ended, why in since]


def test_while_no_broker_answers_nothing_is_known_and_then_the_bar_goes_on() -> None:
    window = led()
    window.seen_silence(SILENT_MS)
    assert parts(lane(window, "leader")) == [(0, 10_000, ""), (10_000, None, NOBODY)]
    assert parts(lane(window, "isr")) == [(0, 10_000, "")]
    window.seen_answer(ANSWER_MS)
    bars = lane(window, "leader")
    assert parts(bars) == [(0, 10_000, ""), (10_000, 60_000, NOBODY), (60_000, None, "")]
    assert {(each["broker"], each["epoch"]) for each in bars} == {(2, 23)}
    assert [each["event"] for each in bars] == ["state/0/0", "seen/0", "seen/1"]
    assert parts(lane(window, "isr")) == [(0, 10_000, ""), (60_000, None, "")]
    said = window.found(parse_id("seen/0"))
    assert said is not None
    told = explain(window, parse_id("seen/0"), said[1], said[0])
    assert told["sentence"].startswith("No broker answered") and "broker" not in told["fields"]


def test_a_leader_that_is_away_longer_than_the_others_is_not_known_until_it_is_back() -> None:
    window = led()
    window.seen_silence(SILENT_MS)
    see_brokers(window, AWAY_MS, alive=False)
    window.seen_answer(ANSWER_MS)
    see_brokers(window, BACK_MS, alive=True)
    assert parts(lane(window, "leader")) == [
        (0, 10_000, ""),
        (10_000, 60_000, NOBODY),
        (60_000, 65_000, "broker 2 is away"),
        (65_000, None, ""),
    ]


def test_an_event_says_again_who_leads_and_who_is_in_sync() -> None:
    window = led()
    window.seen_silence(SILENT_MS)
    window.read(Source.STATE, 0, [change(1, "change-isr", AT + 20_000, epoch=23, broker=2, isr=[2])], AT)
    assert parts(lane(window, "leader")) == [(0, 10_000, ""), (10_000, 20_000, NOBODY), (20_000, None, "")]
    assert parts(lane(window, "isr")) == [(0, 10_000, ""), (20_000, None, "")]
    window.read(Source.STATE, 0, [elected(2, 1, 24, AT + 15_000)], AT)
    assert [each["broker"] for each in lane(window, "leader")] == [2, 2, 1]
    assert parts(lane(window, "leader")) == [(0, 10_000, ""), (10_000, 15_000, NOBODY), (15_000, None, "")]


def test_the_absence_of_another_broker_says_nothing_of_the_leader() -> None:
    window = window_of(elected(0, 3, 23, AT, isr=[3]))
    see_brokers(window, AT, alive=True)
    see_brokers(window, AWAY_MS, alive=False)
    assert parts(lane(window, "leader")) == [(0, None, "")]


TIMES = st.lists(st.integers(1, 100), unique=True, max_size=8).map(sorted)


@given(TIMES, st.integers(0, 50), st.integers(1, 60) | st.none())
def test_the_parts_of_a_step_are_the_whole_step(times: list[int], began: int, took: int | None) -> None:
    ends: Mapping[int, int | None] = dict(zip(times, [*times[1:], None], strict=False))
    gaps = [Gap(at, at, ends[at], "", NO_REF, None) for at in times[::2]]
    step = Step(began, None if took is None else began + took, "v", NO_REF, 0)
    found = list(parted(step, gaps))
    assert found[0][0].at_ms == step.at_ms and found[-1][0].until_ms == step.until_ms
    for (part, gap), (following, after) in pairwise(found):
        assert part.until_ms == following.at_ms and (gap is None) != (after is None)
    for part, gap in found:
        if gap is not None:
            assert (part.at_ms, part.until_ms) == (gap.from_ms, gap.until_ms)
