"""Every API that is served, but ApiVersions."""

from __future__ import annotations

from typing import Final

from tests.broker.kafka.support.mapped import (
    acls,
    cluster,
    configs,
    coordinator,
    fetch,
    group_administration,
    group_membership,
    group_offsets,
    metadata,
    offsets,
    placement,
    produce,
    producer_id,
    replicas,
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
    *replicas.MAPPED,
    *placement.MAPPED,
    *cluster.MAPPED,
    *group_membership.MAPPED,
    *group_offsets.MAPPED,
    *group_administration.MAPPED,
)
