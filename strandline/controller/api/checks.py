"""Which entries of an admin request its caller may make: each topic needs a right of its own.

Requests that need one right to the cluster are refused before (`strandline.serving.serve`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from strandline.adapters.rpc.member_key import MemberKey
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.rights import (
    ALTER_CLUSTER,
    ALTER_GROUP_CONFIGS,
    CLUSTER_ACTION,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP_CONFIGS,
)
from strandline.security.split import Split
from strandline.security.topic_changes import alteration_refusal, creation_refusal
from strandline.serving.serve import Allowed
from strandline.vocabulary.admin import AlterTopic, CheckBroker, CreateTopics, DeleteTopics, TopicResult
from strandline.vocabulary.configs.groups import AlterGroupConfigs, GroupConfigResult, GroupConfigs


@dataclass(frozen=True, slots=True)
class AdminChecks:
    """The checks of those rows that need more than one right to the cluster."""

    access: Access
    key: MemberKey

    def create_topics(
        self, request: CreateTopics, caller: Caller
    ) -> Allowed[CreateTopics, Sequence[TopicResult]] | None:
        """Internal topics are created by members of the cluster."""
        if request.internal and (refusal := self.key.refusal(caller.member_key)) is not None:
            raise self.access.refusal(caller, CLUSTER_ACTION) or refusal
        refused: dict[str, StrandlineError] = {}
        for new in request.topics if self.access.enforced else ():
            if (denied := creation_refusal(self.access, caller, new.name)) is not None:
                refused[new.name] = denied
        if not refused:
            return None
        split = Split(request.topics, lambda new: new.name, refused)
        return Allowed(
            replace(request, topics=split.allowed),
            lambda created: split.whole(list(created), lambda new, error: TopicResult(new.name, error)),
        )

    def delete_topics(
        self, request: DeleteTopics, caller: Caller
    ) -> Allowed[DeleteTopics, Sequence[TopicResult]] | None:
        ids = request.topic_ids or [""] * len(request.topics)
        if len(ids) != len(request.topics):
            raise InvalidRequest(f"{len(ids)} ids for {len(request.topics)} topics")
        split = self.access.split(caller, DELETE_TOPIC, list(zip(request.topics, ids, strict=True)), _topic)
        if not split.refused:
            return None
        names, allowed_ids = [name for name, _ in split.allowed], [each for _, each in split.allowed]
        return Allowed(
            DeleteTopics(names, allowed_ids if request.topic_ids else ()),
            lambda deleted: split.whole(list(deleted), lambda each, error: TopicResult(_topic(each), error)),
        )

    def alter_topic(self, request: AlterTopic, caller: Caller) -> None:
        configs = bool(request.set or request.unset)
        partitions = bool(request.partitions or request.assignments)
        refusal = alteration_refusal(
            self.access, caller, request.topic, configs=configs, partitions=partitions
        )
        if refusal is not None:
            raise refusal

    def alter_group_configs(
        self, request: AlterGroupConfigs, caller: Caller
    ) -> Allowed[AlterGroupConfigs, Sequence[GroupConfigResult]] | None:
        split = self.access.split(caller, ALTER_GROUP_CONFIGS, request.alterations, lambda each: each.group)
        if not split.refused:
            return None
        return Allowed(
            replace(request, alterations=tuple(split.allowed)),
            lambda altered: split.whole(
                list(altered), lambda each, error: GroupConfigResult(each.group, error)
            ),
        )

    def describe_group_configs(
        self, groups: Sequence[str], caller: Caller
    ) -> Allowed[Sequence[str], Sequence[GroupConfigs]] | None:
        """Without names, groups are left out that the caller may not ask for."""
        if not groups:
            return Allowed(
                groups,
                lambda found: [
                    each for each in found if self.access.allowed(caller, DESCRIBE_GROUP_CONFIGS, each.group)
                ],
            )
        split = self.access.split(caller, DESCRIBE_GROUP_CONFIGS, groups, str)
        if not split.refused:
            return None
        if not split.allowed:  # no name would mean all groups
            raise next(iter(split.refused.values()))
        return Allowed(
            split.allowed,
            lambda found: split.whole(list(found), lambda group, error: GroupConfigs(group, error=error)),
        )

    def check_broker(self, request: CheckBroker, caller: Caller) -> None:
        """A check that may end a drain alters the cluster."""
        self.access.check(caller, ALTER_CLUSTER if request.end_drain else DESCRIBE_CLUSTER)


def _topic(named: tuple[str, str]) -> str:
    return named[0]
