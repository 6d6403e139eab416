"""Counts the facts of a round from its data. Pure; times are milliseconds since 1970."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from strandline.ids import TopicPartition
from strandline.report.round_files import Moment
from strandline.report.verdict import judged, took_ms
from strandline_lab.auditing.succession import Elected, next_leaders
from strandline_lab.chaos.core.faults import Fault
from strandline_lab.chaos.core.hangs import brokers_of
from strandline_lab.chaos.report.round_data import RoundData
from strandline_lab.report import partitions, traffic
from strandline_lab.report.events import Sending, SendOutcome
from strandline_lab.report.facts import Facts, FaultFact
from strandline_lab.report.spans import Span


def facts_of(data: RoundData) -> Facts:
    """Counts all facts of a round."""
    span = whole_span(data)
    sendings = [each for sender in data.senders for each in sender.sendings]
    loaded = traffic.loaded(sendings)
    settled_ms = _when(data.moments, "settled")
    courses = partitions.Courses.of(data.observations, settled_ms)
    seen = courses.seen
    acks = traffic.acks_of(sendings)
    places = tuple(sorted({*seen, *acks}))
    gaps = {
        place: traffic.gaps_of(acks.get(place, ()), loaded, seen[place][0].at_ms if place in seen else None)
        for place in places
    }
    healed_ms = _when(data.moments, "healed")
    verdict, reasons = judged(data.moments, data.findings)
    return Facts(
        seed=data.plan.seed if data.plan else None,
        verdict=verdict,
        reasons=reasons,
        span=span,
        loaded=loaded,
        faults=tuple(faults_of(data, span, gaps, courses.wholeness)),
        places=places,
        leaders=courses.leaders(span.to_ms),
        members=courses.members(span.to_ms),
        growth=courses.growth(span),
        falls={place: partitions.falls_of(observed) for place, observed in seen.items()},
        unclean=tuple(each for each in data.elections if each.unclean),
        died=tuple(
            (who, moment.at_ms) for moment in data.moments if moment.event == "died" for who in moment.who
        ),
        gaps=gaps,
        partitions=tuple(
            courses.fact(
                place,
                span,
                healed_ms,
                acked=len(acks.get(place, ())),
                gaps=gaps[place],
                elections=data.elections,
                read_after_ms=data.staleness.get(place),
            )
            for place in places
        ),
        senders=tuple(traffic.sender_fact(sender) for sender in data.senders),
        acked=traffic.rates(_ends(sendings, SendOutcome.ACKED), span),
        received=traffic.rates((at for reader in data.readers for at in reader.received_ms), span),
        failed=traffic.rates(_ends(sendings, SendOutcome.FAILED, SendOutcome.UNKNOWN), span, gapless=False),
        latencies=traffic.latencies_of(sendings, span),
        healed_ms=healed_ms,
        settled_after_ms=took_ms(data.moments, "settled"),
        writable_after_ms=took_ms(data.moments, "writable"),
    )


def whole_span(data: RoundData) -> Span:
    """The time from `began` to `ended`. If the timeline lacks them, from the first to the last event
    known."""
    times = [
        *(float(moment.at_ms) for moment in data.moments),
        *(float(each.at_ms) for each in data.observations),
        *(sending.sent_ms for sender in data.senders for sending in sender.sendings),
    ]
    began, ended = _when(data.moments, "began"), _when(data.moments, "ended")
    first = float(began) if began is not None else min(times, default=0.0)
    last = float(ended) if ended is not None else max(times, default=first)
    return Span(first, max(first, last))


def faults_of(
    data: RoundData,
    span: Span,
    gaps: Mapping[TopicPartition, Sequence[Span]],
    whole: Sequence[tuple[float, bool]],
) -> Iterable[FaultFact]:
    """Each fault that was planned or applied, in the plan's order. A fault without an end ended when the
    cluster was healed."""
    healed_ms = _when(data.moments, "healed")
    elected = [Elected(each.at_ms, each.place, each.broker) for each in data.elections]
    steps: dict[int, dict[str, Moment]] = defaultdict(dict)
    for moment in data.moments:
        if moment.event.startswith("fault_"):
            steps[moment.fault].setdefault(moment.event, moment)
    planned = data.plan.faults if data.plan else ()
    for number in sorted({*range(len(planned)), *steps}):
        said = steps[number]
        began, ended, skipped = (said.get(f"fault_{name}") for name in ("began", "ended", "skipped"))
        kind = _kind(planned, number, said.values())
        if began is None:
            why = skipped.detail if skipped else "it was never begun"
            yield FaultFact(number, kind, skipped.who if skipped else (), why, None)
            continue
        end_ms = ended.at_ms if ended else healed_ms if healed_ms is not None else span.to_ms
        lasted = Span(began.at_ms, max(began.at_ms, end_ms))
        noted = [began, ended] if ended else [began]
        meanwhile = ((place, gap) for place, each in gaps.items() for gap in each if gap.meets(lasted))
        yield FaultFact(
            number=number,
            kind=kind,
            who=tuple(dict.fromkeys(member for moment in noted for member in moment.who)),
            detail="; ".join(dict.fromkeys(moment.detail for moment in noted if moment.detail)),
            span=lasted,
            gap=max(meanwhile, key=lambda each: each[1].took_ms, default=None),
            whole_after_ms=partitions.first_whole(whole, lasted.to_ms),
            next_leader_ms=_next_leader_ms(elected, began, lasted),
        )


def _next_leader_ms(elected: Sequence[Elected], began: Moment, lasted: Span) -> float | None:
    found = [
        after_ms
        for broker in brokers_of(began)
        for after_ms in next_leaders(elected, broker, lasted.from_ms, lasted.to_ms).values()
        if after_ms is not None
    ]
    return max(found, default=None)


def _kind(planned: Sequence[Fault], number: int, said: Iterable[Moment]) -> str:
    if 0 <= number < len(planned):
        return planned[number].kind
    return next((moment.kind for moment in said if moment.kind), "?")


def _ends(sendings: Iterable[Sending], *outcomes: SendOutcome) -> Iterable[float]:
    return (s.ended_ms for s in sendings if s.outcome in outcomes and s.ended_ms is not None)


def _when(moments: Iterable[Moment], event: str) -> int | None:
    return next((moment.at_ms for moment in moments if moment.event == event), None)
