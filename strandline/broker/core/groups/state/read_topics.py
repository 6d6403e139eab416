"""Since when a group reads its topics: what appears later begins at its first record.

Of each topic the group keeps the id and the number of partitions that it had when a member first asked for
it. It does so as long as a member asks for the topic, and while the group has no members. It is in the
group's record, and is there before any member gets its assignment.

A member that chose its topics by a pattern asks for a new topic only once it has seen it, perhaps after the
first records. So the group also keeps the latest leader epoch that there was when a member first came with
the pattern: the epochs of a topic that was made later are all higher (E17).
"""

from __future__ import annotations

from typing import Final

from strandline.broker.core.groups.records import ReadTopics
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.present_topics import PresentTopics
from strandline.broker.core.groups.state.subscriptions import topics_by_pattern
from strandline.ids import NO_EPOCH, NO_TOPIC_ID
from strandline.vocabulary.groups import ReadSince

READ_TOPICS_MAX: Final = 5_000
"""A group that reads more topics keeps nothing: this is in each of its records."""


def unknown_topics(group: Group) -> frozenset[str] | None:
    """The topics that members ask for now and did not before, to be looked at; None if there is nothing to
    look at. What no member asks for is forgotten."""
    asked = topics_by_pattern(group)
    if asked is None:
        return None
    topics = frozenset[str]().union(*asked.values())
    if len(topics) > READ_TOPICS_MAX:
        group.set_read_topics(ReadTopics())
        return None
    # A loaded member has not said again by which pattern it chose its topics.
    silent = any(member.recovered for member in group.members.values())
    kept = ReadTopics(
        {topic: since for topic, since in group.read_topics.topics.items() if topic in topics},
        {by: epoch for by, epoch in group.read_topics.patterns.items() if silent or by in asked},
    )
    if kept != group.read_topics:
        group.set_read_topics(kept)
    unknown = topics - kept.topics.keys()
    return unknown if unknown or asked.keys() - {""} - kept.patterns.keys() else None


def note_topics(group: Group, present: PresentTopics) -> None:
    """The topics as they are when members begin to ask for them."""
    asked = topics_by_pattern(group) or {}
    before = group.read_topics
    topics, patterns = dict(before.topics), dict(before.patterns)
    for pattern in sorted(asked, key=lambda each: (each not in before.patterns, each)):
        since = before.patterns.get(pattern)
        if pattern and since is None and present.latest_epoch != NO_EPOCH:
            patterns[pattern] = present.latest_epoch
        for topic in sorted(asked[pattern] - topics.keys()):
            if topic in present.partitions:
                later = since is not None and present.above_epochs.get(topic, NO_EPOCH) >= since
                topic_id = present.ids.get(topic, NO_TOPIC_ID)
                topics[topic] = ReadSince() if later else ReadSince(topic_id, present.partitions[topic])
    group.set_read_topics(ReadTopics(topics, patterns))
