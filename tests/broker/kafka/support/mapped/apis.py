"""Every API that is served, but ApiVersions."""

from __future__ import annotations

from typing import Final

from tests.broker.kafka.support.mapped import (
    acls,
    configs,
    coordinator,
    fetch,
    metadata,
    offsets,
    produce,
    producer_id,
    topic_changes,
)

MAPPED: Final = (
    *produce.MAPPED,
    *fetch.MAPPED,
    *offsets.MAPPED,
    *metadata.MAPPED,
    *coordinator.MAPPED,
    *producer_id.MAPPED,
    *topic_changes.MAPPED,
    *configs.MAPPED,
    *acls.MAPPED,
)
