"""Spans, marks, samples and holdings: bounded by the width of a view, and true to what happened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core.timeline.lanes.holdings import NOTHING, Change, Holdings
from strandline.console.core.timeline.lanes.marks import Marks
from strandline.console.core.timeline.lanes.samples import POINTS_MAX, Samples
from strandline.console.core.timeline.lanes.spans import UNKNOWN_MS, Span, Spans
from strandline.console.core.timeline.places import NO_REF
from strandline.ids import TopicPartition

TIMES = st.tuples(st.integers(0, 1_000), st.none() | st.integers(0, 800))
VIEWS = st.tuples(st.integers(0, 900), st.integers(1, 400), st.integers(1, 30))


def span_of(number: int, from_ms: int, took_ms: int | None) -> Span:
    span = Span(f"r{number}", "start-replica", "orders", 1, 2, from_ms)
    span.until_ms = UNKNOWN_MS if took_ms is None else from_ms + took_ms
    return span


def spans_of(times: list[tuple[int, int | None]]) -> tuple[Spans, list[Span]]:
    spans, all_spans = Spans(), [span_of(number, *each) for number, each in enumerate(times)]
    for span in all_spans:
        spans.add(span)
    return spans, all_spans


@given(st.lists(TIMES, max_size=40), VIEWS)
def test_a_view_has_every_span_of_which_a_part_is_in_it(
    times: list[tuple[int, int | None]], asked: tuple[int, int, int]
) -> None:
    from_ms, took_ms, width = asked
    spans, all_spans = spans_of(times)
    within = list(spans.within(from_ms, from_ms + took_ms))
    wanted = [span for span in all_spans if span.overlaps(from_ms, from_ms + took_ms)]
    assert sorted(span.id for span in within) == sorted(span.id for span in wanted)
    drawn = list(spans.drawn(from_ms, from_ms + took_ms, took_ms / width))
    assert len(drawn) <= width
    assert sum(each.count for each in drawn) == len(wanted)
    parts = [part for each in drawn for part in each.parts(40)]
    assert sorted(part.spans[0].id for part in parts) == sorted(span.id for span in wanted)
    for each in drawn:
        assert [part.from_ms for part in each.parts(2)] == sorted(span.from_ms for span in each.spans)[:2]


@given(st.lists(TIMES, max_size=40), st.integers(0, 1_000))
def test_open_spans_are_not_forgotten(times: list[tuple[int, int | None]], floor_ms: int) -> None:
    spans, all_spans = spans_of(times)
    gone = {span.id for span in spans.trim(floor_ms)}
    assert gone == {span.id for span in all_spans if not span.open and span.until_ms <= floor_ms}
    assert len(spans) == len(all_spans) - len(gone)


def test_a_span_whose_beginning_becomes_known_later_moves() -> None:
    spans = Spans()
    span = span_of(0, 500, None)
    spans.add(span)
    spans.remove(span)
    span.from_ms = 100
    spans.add(span)
    assert list(spans.within(90, 110)) == [span] and len(spans) == 1


@given(st.lists(st.tuples(st.integers(0, 1_000), st.sampled_from("abc")), max_size=80), VIEWS)
def test_marks_are_counted_by_pixel_and_kind(
    events: list[tuple[int, str]], asked: tuple[int, int, int]
) -> None:
    from_ms, took_ms, width = asked
    marks = Marks()
    for ref, (at_ms, kind) in enumerate(events):
        marks.add(at_ms, kind, ref)
    drawn = list(marks.drawn(from_ms, from_ms + took_ms, took_ms / width, parts_max=3))
    assert len(drawn) <= (width + 1) * 3
    for each in drawn:
        assert len(each.parts) == (min(3, each.number) if each.number > 1 else 0)
        for part in each.parts:
            assert events[part.ref] == (part.at_ms, each.kind)
            assert each.at_ms <= part.at_ms <= each.last_ms
        assert not each.parts or each.parts[0].at_ms == each.at_ms
    for kind in "abc":
        wanted = sum(each == kind and from_ms <= at < from_ms + took_ms for at, each in events)
        assert sum(each.number for each in drawn if each.kind == kind) == wanted
    assert all((each.ref == NO_REF) == (each.number > 1) for each in drawn)


def test_samples_lose_the_middle_of_what_stays_equal_and_become_coarse_with_age() -> None:
    samples = Samples()
    for at_ms in range(0, 100, 10):
        samples.add(at_ms, 5, 6)
    assert samples.drawn(0, 100, 1)[0] == [[0, 5], [90, 5]]
    samples.add(90, 9, 9)
    assert len(samples) == 2, "an earlier point, or one of the same time, is not added"
    for at_ms in range(100, 100_000):
        samples.add(at_ms, at_ms, at_ms)
    assert len(samples) <= POINTS_MAX
    watermarks, ends = samples.drawn(0, 100_000, 1_000)
    assert watermarks[-1] == ends[-1] == [99_999, 99_999] and len(watermarks) <= 102


P, Q, R = (TopicPartition("t", number) for number in range(3))
PARTS = st.frozensets(st.sampled_from([P, Q, R]), max_size=3)
CHANGES = st.lists(
    st.tuples(st.booleans(), PARTS) | st.none(), max_size=12
)  # took or gave these; None: the member left


def holdings_of(changes: list[tuple[bool, frozenset[TopicPartition]] | None]) -> list[Change]:
    made = []
    for order, each in enumerate(changes):
        took = each[1] if each and each[0] else NOTHING
        gave = None if each is None else each[1] if not each[0] else NOTHING
        made.append(Change(order, order * 10, order, took, gave))
    return made


@given(CHANGES, st.integers(0, 120))
def test_holdings_do_not_depend_on_the_order_of_reading(
    changes: list[tuple[bool, frozenset[TopicPartition]] | None], floor_ms: int
) -> None:
    made = holdings_of(changes)
    one, other = Holdings(), Holdings()
    for change in made:
        one.add(change)
    for change in reversed(made):
        other.add(change)
    moments = range(-5, 130, 5)
    held = [one.steps().value_at(at) for at in moments]
    assert held == [other.steps().value_at(at) for at in moments]
    one.trim(floor_ms)
    for at_ms, before in zip(moments, held, strict=True):
        if at_ms >= floor_ms:
            assert (one.steps().value_at(at_ms) or NOTHING) == (before or NOTHING)


def test_what_is_given_up_was_held_before() -> None:
    held = Holdings()
    held.add(Change(5, 50, 5, NOTHING, frozenset({P, Q})))
    held.add(Change(6, 60, 6, frozenset({R}), NOTHING))
    assert held.steps().value_at(40) == frozenset({P, Q}) and held.steps().value_at(70) == frozenset({R})
    held.add(Change(7, 70, 7, NOTHING, None))
    assert held.empty
