"""Every API that is served, but ApiVersions."""

from __future__ import annotations

from typing import Final

from tests.broker.kafka.support.mapped import (
    coordinator,
    fetch,
    metadata,
    offsets,
    produce,
    producer_id,
    sasl,
)
from tests.broker.kafka.support.mapped.admin import (
    acls,
    cluster,
    configs,
    placement,
    quotas,
    replicas,
    topic_changes,
    users,
)
from tests.broker.kafka.support.mapped.groups import administration, membership
from tests.broker.kafka.support.mapped.groups import offsets as group_offsets

MAPPED: Final = (
    *produce.MAPPED,
    *fetch.MAPPED,
    *offsets.MAPPED,
    *metadata.MAPPED,
    *coordinator.MAPPED,
    *producer_id.MAPPED,
    *sasl.MAPPED,
    *topic_changes.MAPPED,
    *configs.MAPPED,
    *acls.MAPPED,
    *users.MAPPED,
    *quotas.MAPPED,
    *replicas.MAPPED,
    *placement.MAPPED,
    *cluster.MAPPED,
    *membership.MAPPED,
    *group_offsets.MAPPED,
    *administration.MAPPED,
)
