"""The znode of a partition whose replicas move."""

from __future__ import annotations

from typing import Any

from strandline.adapters.zookeeper.znodes import dump, reading, reassigned
from strandline.ids import TopicId
from strandline.vocabulary.metadata import Deadline, Reassignment, Replaced
from strandline.vocabulary.parsing.typed_json import broker_numbers, integer, text
from strandline.vocabulary.state_changes import dump_asked_by, load_asked_by


def dump_reassignment(wanted: Reassignment) -> bytes:
    fields: dict[str, Any] = {
        "id": wanted.topic_id,
        "replicas": list(wanted.replicas),
        "original": list(wanted.original),
        "throttle": wanted.throttle_bytes_per_s,
        "reverting": wanted.reverting,
        "request": wanted.request_id,
        "at": wanted.at_ms,
        "replaced": [[r.request_id, list(r.replicas), r.at_ms, r.until_ms] for r in wanted.replaced],
    }
    if wanted.by is not None:
        fields["by"] = dump_asked_by(wanted.by)
    if (deadline := wanted.deadline) is not None:
        fields["deadline"] = [deadline.at_ms, deadline.cancels, deadline.passed]
    if wanted.cause:
        fields["cause"] = wanted.cause
    if any(each.by is not None for each in wanted.replaced):
        fields["replaced_by"] = [each.by and dump_asked_by(each.by) for each in wanted.replaced]
    return dump(fields)


def load_reassignment(name: str, number: int, data: bytes) -> Reassignment:
    with reading(reassigned(name, number), data) as raw:
        askers = raw.get("replaced_by") or [None] * len(raw["replaced"])
        return Reassignment(
            TopicId(text(raw["id"])),
            broker_numbers(raw["replicas"]),
            broker_numbers(raw["original"]),
            integer(raw["throttle"], least=0),
            bool(raw["reverting"]),
            text(raw["request"]),
            integer(raw["at"]),
            tuple(
                Replaced(
                    text(request_id),
                    broker_numbers(replicas),
                    integer(at_ms),
                    integer(until_ms),
                    load_asked_by(by),
                )
                for (request_id, replicas, at_ms, until_ms), by in zip(raw["replaced"], askers, strict=True)
            ),
            load_asked_by(raw.get("by")),
            _deadline(raw.get("deadline")),
            text(raw.get("cause", "")),
        )


def _deadline(raw: Any) -> Deadline | None:
    if raw is None:
        return None
    at_ms, cancels, passed = raw
    return Deadline(integer(at_ms), bool(cancels), bool(passed))
