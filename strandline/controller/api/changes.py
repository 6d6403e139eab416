"""What each admin request changes, for the audit log: an entry a topic, partition, ACL, user, quota or group.

Arguments are chosen field by field: no entry has a user's salt or keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.security.acls import CLUSTER_NAME, AclBinding, AclFilter
from strandline.security.audit.entry import may_have_changed
from strandline.security.login.credentials import UserChange
from strandline.security.rights import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CREATE_TOPIC,
    DELETE_TOPIC,
)
from strandline.serving.serve import Change
from strandline.vocabulary.admin import (
    AclResult,
    AlterClientQuotas,
    AlterTopic,
    BalanceAction,
    BalancePlan,
    BrokerCheck,
    CheckBroker,
    CreateTopics,
    DeletedAcls,
    DeleteTopics,
    DrainBroker,
    ElectUnclean,
    ForgetBroker,
    ForgottenBroker,
    PartitionResult,
    QuotaResult,
    Reassign,
    StartBalance,
    TopicResult,
    UncleanElection,
    UserResult,
)
from strandline.vocabulary.configs.groups import AlterGroupConfigs, GroupConfigResult


def _created(asked: CreateTopics, results: Sequence[TopicResult]) -> Iterator[Change]:
    for new, result in zip(asked.topics, results, strict=True):
        arguments: dict[str, Any] = {"config": dict(new.config)}
        if new.assignments:
            arguments["assignments"] = [list(each) for each in new.assignments]
        else:
            arguments |= {"partitions": new.partitions, "replication_factor": new.replication_factor}
        yield Change(CREATE_TOPIC, new.name, arguments, result.error)


def _deleted(asked: DeleteTopics, results: Sequence[TopicResult]) -> Iterator[Change]:
    for result in results:
        yield Change(DELETE_TOPIC, result.topic, {}, result.error)


def _altered(asked: AlterTopic, _: None) -> Iterator[Change]:
    if asked.set or asked.unset:
        configs = {"set": dict(asked.set), "unset": sorted(asked.unset)}
        yield Change(ALTER_TOPIC_CONFIGS, asked.topic, configs)
    if asked.partitions or asked.assignments:
        partitions = {
            "partitions": asked.partitions,
            "assignments": [list(each) for each in asked.assignments],
        }
        yield Change(ALTER_TOPIC, asked.topic, partitions)


def _reassigned(asked: Reassign, results: Sequence[PartitionResult]) -> Iterator[Change]:
    throttle = {"throttle_bytes_per_s": asked.throttle_bytes_per_s}
    deadline = {"timeout_ms": asked.timeout_ms, "cancel_at_deadline": asked.cancel_at_deadline}
    for move, result in zip(asked.partitions, results, strict=True):
        arguments: dict[str, Any] = {"partition": str(move.name), **throttle}
        if not move.only_throttle:
            arguments |= {"replicas": list(move.replicas) or None, **deadline}  # no replicas: taken back
        yield _of_cluster(result.error, **arguments)


def _elected(asked: Sequence[TopicPartition], results: Sequence[PartitionResult]) -> Iterator[Change]:
    for result in results:
        yield _of_cluster(result.error, election="preferred", partition=str(result.name))


def _elected_uncleanly(asked: ElectUnclean, results: Sequence[UncleanElection]) -> Iterator[Change]:
    for result in results:
        yield _of_cluster(result.error, election="unclean", partition=str(result.name), broker=result.broker)


def _drained(asked: DrainBroker, _: object) -> Iterator[Change]:
    yield _of_cluster(
        drain=asked.broker,
        replicas=asked.replicas,
        undo=asked.undo,
        throttle_bytes_per_s=asked.throttle_bytes_per_s,
        until_restart=asked.until_restart,
    )


def _forgotten(asked: ForgetBroker, found: ForgottenBroker) -> Iterator[Change]:
    if found.was_known:
        yield _of_cluster(forget=asked.broker, requests=found.requests)


def _checked(asked: CheckBroker, found: BrokerCheck) -> Iterator[Change]:
    if found.drain_ended:
        yield _of_cluster(drain=asked.broker, undo=True)


def _balanced(asked: StartBalance, plan: BalancePlan) -> Iterator[Change]:
    if plan.moves:
        yield _of_cluster(
            balance="start",
            brokers=list(asked.brokers) or None,  # none: all that may get replicas
            topics=list(asked.topics) or None,
            moves=len(plan.moves),
            throttle_bytes_per_s=asked.throttle_bytes_per_s,
        )


def _balance_altered(action: BalanceAction, _: object) -> Iterator[Change]:
    yield _of_cluster(balance=action.name.lower())


def _acls_created(asked: Sequence[AclBinding], results: Sequence[AclResult]) -> Iterator[Change]:
    for result in results:
        yield _of_cluster(result.error, create_acl=str(result.binding))


def _acls_deleted(asked: Sequence[AclFilter], results: Sequence[DeletedAcls]) -> Iterator[Change]:
    for result in results:
        for each in result.matched:
            yield _of_cluster(each.error, delete_acl=str(each.binding))


def _users_altered(asked: Sequence[UserChange], results: Sequence[UserResult]) -> Iterator[Change]:
    errors = {result.user: result.error for result in results}
    for change in asked:
        what = "delete" if change.credential is None else "set"
        yield _of_cluster(errors.get(change.user), user=change.user, **{what: change.mechanism})


def _quotas_altered(asked: AlterClientQuotas, results: Sequence[QuotaResult]) -> Iterator[Change]:
    for alteration, result in zip(asked.alterations, results, strict=True):
        limits = {quota.value: limit for quota, limit in alteration.limits.items()}
        of = alteration.entity
        entity = {"user": of.user, "client_id": of.client_id} if of.ip is None else {"ip": of.ip}
        yield Change(ALTER_CLUSTER_CONFIGS, CLUSTER_NAME, {"quota": entity, "limits": limits}, result.error)


def _group_configs_altered(
    asked: AlterGroupConfigs, results: Sequence[GroupConfigResult]
) -> Iterator[Change]:
    for each, result in zip(asked.alterations, results, strict=True):
        arguments = {"set": dict(each.set), "unset": list(each.unset), "replace": each.replace}
        yield Change(ALTER_GROUP_CONFIGS, each.group, arguments, result.error)


def _of_cluster(error: StrandlineError | None = None, **arguments: Any) -> Change:
    return Change(ALTER_CLUSTER, CLUSTER_NAME, arguments, error)


_ADMIN: Final = "/strandline.v1.Admin/"
CHANGES: Final[Mapping[str, Callable[[Any, Any], Iterable[Change]]]] = {
    _ADMIN + "CreateTopics": _created,
    _ADMIN + "DeleteTopics": _deleted,
    _ADMIN + "AlterTopic": _altered,
    _ADMIN + "Reassign": _reassigned,
    _ADMIN + "ElectPreferred": _elected,
    _ADMIN + "ElectUnclean": _elected_uncleanly,
    _ADMIN + "DrainBroker": _drained,
    _ADMIN + "ForgetBroker": _forgotten,
    _ADMIN + "Balance": _balanced,
    _ADMIN + "AlterBalance": _balance_altered,
    _ADMIN + "CheckBroker": _checked,
    _ADMIN + "CreateAcls": _acls_created,
    _ADMIN + "DeleteAcls": _acls_deleted,
    _ADMIN + "AlterUserScramCredentials": _users_altered,
    _ADMIN + "AlterClientQuotas": _quotas_altered,
    _ADMIN + "AlterGroupConfigs": _group_configs_altered,
}
"""By path, what a request and its answer change. A request that only validates changes nothing."""


def changes(path: str, request: Any, answer: Any) -> list[Change]:
    """What has changed, and what may have: the error is then an unknown outcome."""
    if getattr(request, "validate_only", False):
        return []
    return [each for each in CHANGES[path](request, answer) if may_have_changed(each.error)]
