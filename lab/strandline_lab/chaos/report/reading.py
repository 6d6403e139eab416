"""Reads a round for its report, as far as its files exist and can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from strandline.auditing.history import Acked, Failed, Line, Received, Sent
from strandline.errors import Outcome
from strandline.ids import TopicPartition
from strandline.report.round_files import FINDINGS, STALENESS, Fields, RoundFiles
from strandline.vocabulary.state_changes import ChangeKind
from strandline_lab.chaos.core.plan import Plan, load
from strandline_lab.chaos.evidence import PRODUCERS
from strandline_lab.chaos.report.round_data import RoundData
from strandline_lab.report.events import Election, Reader, Sender, Sending, SendOutcome

PLAN = "plan.json"
CONSUMERS = "consume-*.jsonl"


def read_round(out: Path) -> RoundData:
    """Reads the data in `out`. What is missing counts as empty; what cannot be read is named in `unread`."""
    files = RoundFiles(out, strict=False)
    plan = _plan(out / PLAN, files.unread)
    command = out / "command.txt"
    return RoundData(
        name=out.name,
        plan=plan,
        command=command.read_text(errors="replace").strip() if command.is_file() else "",
        moments=tuple(files.moments()),
        observations=tuple(files.observations()),
        elections=tuple(dict(_elections(files)).values()),
        senders=tuple(Sender(name, _sendings(files.history(name))) for name in files.named(PRODUCERS)),
        readers=tuple(_reader(name, files.history(name)) for name in files.named(CONSUMERS)),
        findings=tuple(files.findings()) if files.has(FINDINGS) else None,
        staleness=dict(files.values(STALENESS, _staleness)),
        unread=tuple(files.unread),
    )


def _plan(path: Path, unread: list[str]) -> Plan | None:
    """The plan; None if it is missing or broken."""
    try:
        return load(path.read_text())
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        unread.append(f"{path.name}: {type(error).__name__}: {error}")
        return None


def _elections(files: RoundFiles) -> Iterator[tuple[str, Election]]:
    """Elections by the id of their event: an event that was recorded twice has the same id twice."""
    for event in files.state_changes():
        if event.command is ChangeKind.ELECT_LEADER:
            place = TopicPartition(event.topic, int(event.key.partition))
            yield event.id, Election(event.at_ms, place, int(event.broker), event.unclean)


def _staleness(fields: Fields) -> tuple[TopicPartition, float]:
    return TopicPartition(str(fields["topic"]), int(fields["partition"])), float(fields["ms"])


def _sendings(lines: Iterable[Line]) -> tuple[Sending, ...]:
    """The records in the order of sending. An answer to a record that was never sent is ignored."""
    sendings: dict[int, Sending] = {}
    sent_at: dict[int, float] = {}
    for event, fields in lines:
        if isinstance(event, Sent):
            sent_at[event.record] = float(fields["monotonic_ms"])
            sendings[event.record] = Sending(int(fields["at"]), SendOutcome.UNANSWERED)
        elif isinstance(event, Acked | Failed) and event.record in sendings:
            took_ms = float(fields["monotonic_ms"]) - sent_at[event.record]
            sent_ms = sendings[event.record].sent_ms
            place = TopicPartition(event.topic, event.partition) if isinstance(event, Acked) else None
            sendings[event.record] = Sending(sent_ms, _outcome(event), int(fields["at"]), took_ms, place)
    return tuple(sendings.values())


def _outcome(event: Acked | Failed) -> SendOutcome:
    if isinstance(event, Acked):
        return SendOutcome.ACKED
    return SendOutcome.UNKNOWN if event.outcome is Outcome.UNKNOWN else SendOutcome.FAILED


def _reader(name: str, lines: Iterable[Line]) -> Reader:
    times: list[int] = []
    error = ""
    for event, fields in lines:
        if isinstance(event, Received):
            times.append(int(fields["at"]))
        elif fields["event"] == "error":
            error = f"{fields.get('error')}: {fields.get('message')}"
    return Reader(name, tuple(times), error)
