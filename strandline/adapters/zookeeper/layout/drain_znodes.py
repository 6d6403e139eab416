"""Encodes the znodes of drains."""

from __future__ import annotations

from typing import Any

from strandline.adapters.zookeeper.znodes import drain, dump, reading
from strandline.ids import BrokerEpoch
from strandline.vocabulary.metadata import Drain
from strandline.vocabulary.parsing.typed_json import integer
from strandline.vocabulary.state_changes import dump_asked_by, load_asked_by


def dump_drain(wanted: Drain) -> bytes:
    fields: dict[str, Any] = {
        "broker_epoch": wanted.broker_epoch,
        "replicas": wanted.replicas,
        "throttle": wanted.throttle_bytes_per_s,
    }
    if wanted.earlier_throttles:
        fields["earlier_throttles"] = list(wanted.earlier_throttles)
    if wanted.until_restart:
        fields["until_restart"] = True
    if wanted.by is not None:
        fields["by"] = dump_asked_by(wanted.by)
    return dump(fields)


def load_drain(broker_id: int, data: bytes) -> Drain:
    with reading(drain(broker_id), data) as raw:
        throttle = integer(raw["throttle"], least=0)
        earlier = tuple(integer(each, least=0) for each in raw.get("earlier_throttles", ()))
        by = load_asked_by(raw.get("by"))
        return Drain(
            BrokerEpoch(integer(raw["broker_epoch"])),
            bool(raw["replicas"]),
            throttle,
            earlier,
            by,
            until_restart=bool(raw.get("until_restart")),
        )
