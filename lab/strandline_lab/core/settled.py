"""What a cluster lacks after the last fault."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.client.admin.topics import TopicDescription
from strandline.vocabulary.admin import OngoingReassignment


def first_missing(topics: Iterable[TopicDescription], under_way: Iterable[OngoingReassignment] = ()) -> str:
    """The first thing that these topics lack; empty if each partition has a leader that answers, and all of
    its replicas are in sync, and none is being reassigned."""
    for topic in topics:
        for each in topic.partitions:
            name = f"{topic.name}-{each.partition}"
            if each.leader < 0:
                return f"{name} has no leader"
            if set(each.isr) != set(each.replicas):
                return f"{name} has replicas {list(each.replicas)} and of them in sync {list(each.isr)}"
            if each.high_watermark is None:
                return f"the leader of {name} does not answer"
    return next((f"{each.name} is being reassigned" for each in under_way), "")
