"""The faults of a run, and the moments at which it healed, as a row of their own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline.report.round_files import TIMELINE, Moment

ROW_ID: Final = "faults"
RELATED_MAX: Final = 12
TEXT_CHARS_MAX: Final = 300
FAULT: Final = "fault"
MOMENT: Final = "moment"
UNTIL_HEALED: Final = "healed"


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault that was done. `until_ms` is None if nothing says when it ended."""

    number: int
    kind: str
    who: tuple[str, ...]
    detail: str
    from_ms: int
    until_ms: int | None

    @property
    def label(self) -> str:
        """The fault for people."""
        return f"{self.kind}: {', '.join(self.who)}" if self.who else self.kind


class Faults:
    """All that was done to the cluster of a run, in the order of time."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._spans = sorted(_spans(moments), key=lambda each: (each.from_ms, each.number))
        self._moments = [each for each in moments if each.fault < 0]

    def __len__(self) -> int:
        return len(self._spans)

    def row(self, from_ms: int, until_ms: int) -> dict[str, Any]:
        """The row of an answer: a lane of the faults in this time, and one of the other moments."""
        items = [
            _item(each)
            for each in self._spans
            if each.from_ms < until_ms and (each.until_ms is None or each.until_ms >= from_ms)
        ]
        marks = [
            {"at": each.at_ms, "kind": each.event, "count": 1, "event": f"{MOMENT}/{number}"}
            for number, each in enumerate(self._moments)
            if from_ms <= each.at_ms < until_ms
        ]
        lanes = [{"kind": FAULT, "items": items}, {"kind": "marks", "items": marks}]
        return {"id": ROW_ID, "name": "faults", "lanes": [lane for lane in lanes if lane["items"]]}

    def explain(self, event: str) -> dict[str, Any] | None:
        """The answer for an event of this row, None if it has no such event."""
        word, _, number = event.partition("/")
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            return None
        if word == MOMENT and int(number) < len(self._moments):
            moment = self._moments[int(number)]
            return self._answer(event, moment.at_ms, _words(moment), "", {})
        span = next((each for each in self._spans if each.number == int(number)), None)
        if word != FAULT or span is None:
            return None
        sentence = f"{span.label[0].upper()}{span.label[1:]}."
        ended = "unknown" if span.until_ms is None else f"after {(span.until_ms - span.from_ms) / 1000:.3f} s"
        return self._answer(event, span.from_ms, sentence, span.detail, {"ended": ended})

    def of_broker(self, broker: int) -> list[dict[str, Any]]:
        """The lane of the faults that were done to a broker; none if there were none."""
        items = [_item(each) for each in self._spans if f"broker {broker}" in each.who]
        return [{"kind": FAULT, "items": items}] if items else []

    def _answer(
        self, event: str, at_ms: int, sentence: str, cause: str, after: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            "id": event,
            "at": at_ms,
            "sentence": sentence,
            "cause": cause,
            "record": {"file": TIMELINE},
            "fields": {},
            "before": {},
            "after": after,
            "related": self._around(at_ms, event),
        }

    def _around(self, at_ms: int, event: str) -> list[dict[str, Any]]:
        """The faults nearest to a moment."""
        near = sorted(self._spans, key=lambda each: abs(each.from_ms - at_ms))[: RELATED_MAX + 1]
        return [
            {"id": f"{FAULT}/{each.number}", "at": each.from_ms, "sentence": each.label}
            for each in sorted(near, key=lambda each: each.from_ms)
            if f"{FAULT}/{each.number}" != event
        ]


def _spans(moments: Sequence[Moment]) -> Iterator[FaultSpan]:
    """Each fault that began. One that has no end of its own lasted until everything was healed."""
    healed_ms = next((each.at_ms for each in moments if each.event == UNTIL_HEALED), None)
    began: dict[int, Moment] = {}
    ended: dict[int, Moment] = {}
    for each in moments:
        if each.event == "fault_began":
            began.setdefault(each.fault, each)
        elif each.event == "fault_ended":
            ended.setdefault(each.fault, each)
    for number, begin in began.items():
        end = ended.get(number)
        until_ms = healed_ms if end is None else end.at_ms
        noted = [begin] if end is None else [begin, end]
        yield FaultSpan(
            number,
            begin.kind,
            _each_once(who for moment in noted for who in moment.who),
            "; ".join(_each_once(moment.detail for moment in noted if moment.detail)),
            begin.at_ms,
            None if until_ms is None else max(until_ms, begin.at_ms),
        )


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _item(span: FaultSpan) -> dict[str, Any]:
    return {
        "from": span.from_ms,
        "until": span.until_ms,
        "label": span.label[:TEXT_CHARS_MAX],
        "event": f"{FAULT}/{span.number}",
    }


_WORDS: Final = {"began": "the faults begin", "healed": "all faults are over", "ended": "the run is over"}


def _words(moment: Moment) -> str:
    said = _WORDS.get(moment.event, moment.event.replace("_", " "))
    who = f": {', '.join(moment.who)}" if moment.who else ""
    detail = f"; {moment.detail}" if moment.detail else ""
    return f"{said[0].upper()}{said[1:]}{who}{detail}."
