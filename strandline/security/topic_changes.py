"""The rights that changes of topics need: controllers ask for their own callers, brokers for Kafka clients.

Topics that begin with `__` are the system's own, and hold the work of all groups. To alter one takes a right
to the cluster besides that to the topic.
"""

from __future__ import annotations

from strandline.errors import StrandlineError
from strandline.ids import INTERNAL_PREFIX
from strandline.security.access import Access
from strandline.security.asker import Asker
from strandline.security.rights import (
    ALTER_CLUSTER,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    WRITE_TOPIC,
)


def write_refusal(access: Access, caller: Asker, topic: str) -> StrandlineError | None:
    """Why the caller may not write to the topic; None if it may. Internal ones are written by members."""
    if not topic.startswith(INTERNAL_PREFIX):
        return access.refusal(caller, WRITE_TOPIC, topic)
    return None if access.allowed(caller, CLUSTER_ACTION) else access.refused(caller, WRITE_TOPIC, topic)


def creation_refusal(access: Access, caller: Asker, topic: str) -> StrandlineError | None:
    """Why the caller may not create a topic of this name; None if it may."""
    if access.allowed(caller, CREATE_CLUSTER):
        return None
    return access.refusal(caller, CREATE_TOPIC, topic)


def alteration_refusal(
    access: Access, caller: Asker, topic: str, *, configs: bool, partitions: bool
) -> StrandlineError | None:
    """Why the caller may not alter the topic's configs, or the number of its partitions; None if it may."""
    refusal = None
    if configs:
        refusal = access.refusal(caller, ALTER_TOPIC_CONFIGS, topic)
    if refusal is None and (partitions or not configs):
        refusal = access.refusal(caller, ALTER_TOPIC, topic)
    if refusal is None and topic.startswith(INTERNAL_PREFIX) and not access.allowed(caller, ALTER_CLUSTER):
        return access.refused(caller, ALTER_TOPIC, topic)
    return refusal
