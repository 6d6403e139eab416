"""The limits of a coordinator. Each check raises the typed error that names the value and the bound."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self

from strandline.broker.core.coordinators.names import check_name, wrong_text
from strandline.broker.core.groups.records import LEADER_EPOCH_MAX, STRING_BYTES_MAX
from strandline.broker.core.groups.state_bytes import GROUP_BYTES, PENDING_BYTES
from strandline.config.limits import GROUP_ID_LENGTH_MAX, MIB
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    OffsetMetadataTooLarge,
    StrandlineError,
    UnknownTopicId,
)
from strandline.ids import TopicPartition, is_topic_id
from strandline.vocabulary.configs.groups import GroupBounds
from strandline.vocabulary.groups import CommittedOffset, GroupProtocol, JoinGroup

GROUP_BYTES_MAX: Final = 2 * MIB
"""The bytes of a generation, which is one record with all its members. Members are similar, so that it
compresses to a quarter and fits a batch; if it does not, the members get the log's own refusal."""

PROTOCOLS_MAX: Final = 32
"""Protocols of one member."""
IDS_SHARE: Final = 4
"""One part in this many of a coordinator's memory is for ids that were given and not used yet."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The settings of a broker that its coordinators use."""

    group_initial_rebalance_delay_ms: int
    group_session_timeout_ms_min: int
    group_session_timeout_ms_max: int
    group_rebalance_timeout_ms_max: int
    group_consumer_migration_policy: str
    group_members_max: int
    group_member_bytes_max: int
    groups_max: int
    group_state_bytes_max: int
    offset_metadata_bytes_max: int
    offsets_per_commit_max: int
    task_changes_per_report_max: int
    offsets_retention_ms: int
    offsets_expiry_check_ms: int
    consumer_times: GroupBounds
    """Of groups whose coordinator assigns."""

    @property
    def ids_max(self) -> int:
        """Ids that were given and not used yet, of all groups. Each may keep a group that has nothing else,
        and costs its caller nothing: so they have a part of the memory and of the groups, and not all."""
        of_bytes = self.group_state_bytes_max // IDS_SHARE // (GROUP_BYTES + PENDING_BYTES)
        return max(1, min(of_bytes, self.groups_max // 2))

    @property
    def upgrades(self) -> bool:
        """Whether a member of the consumer protocol may convert a classic group that it joins."""
        return self.group_consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def downgrades(self) -> bool:
        """Whether a group becomes a classic one when its last member of the consumer protocol is out."""
        return self.group_consumer_migration_policy in ("bidirectional", "downgrade")

    @classmethod
    def of(cls, settings: BrokerSettings) -> Self:
        found = {field.name: getattr(settings, field.name, None) for field in fields(cls)}
        found["consumer_times"] = GroupBounds.of(settings)
        return cls(**found)  # type: ignore[arg-type]  # the settings have the types of the fields


# --- ids and reasons ----------------------------------------------------------------------------


def check_group(group: str) -> None:
    """Raises InvalidGroupId."""
    wrong = "is empty" if not group else wrong_text(group, GROUP_ID_LENGTH_MAX)
    if wrong is not None:
        raise InvalidGroupId(f"group id {group[:GROUP_ID_LENGTH_MAX]!r} {wrong}", limit=GROUP_ID_LENGTH_MAX)


def check_id(what: str, value: str) -> None:
    """Checks a member, instance or client id, or the like. Raises InvalidRequest."""
    wrong = wrong_text(value, GROUP_ID_LENGTH_MAX)
    if wrong is not None:
        raise InvalidRequest(f"{what} {value[:GROUP_ID_LENGTH_MAX]!r} {wrong}", limit=GROUP_ID_LENGTH_MAX)


def check_task(task: str) -> None:
    """Raises InvalidRequest."""
    if not task:
        raise InvalidRequest("task '' has no name")
    check_id("task", task)


def cut(text: str) -> str:
    """A reason, which is for people: shortened and put on one line rather than refused."""
    return "".join(c if c.isprintable() else " " for c in text[:GROUP_ID_LENGTH_MAX]).strip()


# --- joining ------------------------------------------------------------------------------------


def check_join(request: JoinGroup, limits: GroupLimits) -> None:
    """Checks everything about a join that does not depend on the group."""
    check_group(request.group)
    check_id("member id", request.member)
    check_id("client id", request.client_id)
    check_id("protocol type", request.protocol_type)
    check_id("pattern", request.pattern)
    if request.instance is not None:
        check_id("instance id", request.instance)
        if not request.instance:
            raise InvalidRequest("instance id '' is empty; a dynamic member has none")
    _check_timeouts(request, limits)
    if not request.protocol_type or not request.protocols:
        raise InconsistentGroupProtocol(
            f"a join of group {request.group} with protocol type {request.protocol_type!r} and "
            f"{len(request.protocols)} protocols; it needs a type and at least one protocol"
        )
    if request.member or request.instance is not None:
        _check_names(request.protocols)  # as from Kafka, a newcomer gets its id first
    _check_protocols(request.protocols, limits)


def _check_timeouts(request: JoinGroup, limits: GroupLimits) -> None:
    least, most = limits.group_session_timeout_ms_min, limits.group_session_timeout_ms_max
    if not least <= request.session_timeout_ms <= most:
        raise InvalidSessionTimeout(
            f"session timeout of {request.session_timeout_ms} ms is not between {least} and {most} ms",
            limit=most if request.session_timeout_ms > most else least,
        )
    most = limits.group_rebalance_timeout_ms_max
    if not 1 <= request.rebalance_timeout_ms <= most:
        raise InvalidRequest(
            f"rebalance timeout of {request.rebalance_timeout_ms} ms is not between 1 and {most} ms",
            limit=most,
        )


def _check_names(protocols: tuple[GroupProtocol, ...]) -> None:
    names = [protocol.name for protocol in protocols]
    if "" in names:
        raise InvalidRequest("protocol '' has no name")
    if len(set(names)) < len(names):
        raise InvalidRequest(f"protocols {', '.join(names)}: one of them stands there twice")


def _check_protocols(protocols: tuple[GroupProtocol, ...], limits: GroupLimits) -> None:
    if len(protocols) > PROTOCOLS_MAX:
        raise InvalidRequest(f"{len(protocols)} protocols, more than {PROTOCOLS_MAX}", limit=PROTOCOLS_MAX)
    for protocol in protocols:
        check_id("protocol", protocol.name)
    size, most = sum(len(protocol.metadata) for protocol in protocols), limits.group_member_bytes_max
    if size > most:
        raise InvalidRequest(f"metadata of {size} bytes, more than {most}", limit=most)


# --- offsets ------------------------------------------------------------------------------------


def check_offset(
    name: TopicPartition, committed: CommittedOffset, limits: GroupLimits, *, any_offset: bool
) -> StrandlineError | None:
    """The problem with one offset of a commit, which does not affect the others; None if it is valid."""
    if (wrong := check_name(name) or check_position(name, committed, any_offset=any_offset)) is not None:
        return wrong
    size = len(committed.metadata.encode())
    most = min(limits.offset_metadata_bytes_max, STRING_BYTES_MAX)
    if committed.topic_id and not is_topic_id(committed.topic_id):
        return UnknownTopicId(f"{name}: topic id {committed.topic_id[:64]!r} is not 32 hexadecimal digits")
    if size > most:
        return OffsetMetadataTooLarge(f"{name}: metadata of {size} bytes, more than {most}", limit=most)
    return None


def check_position(
    name: TopicPartition, committed: CommittedOffset, *, any_offset: bool
) -> StrandlineError | None:
    """The problem with the numbers of an offset; None if they are valid. `any_offset`: below 0 too."""
    if not (-(2**63) if any_offset else 0) <= committed.offset < 2**63:
        return InvalidRequest(f"{name}: offset {committed.offset} is not between 0 and 2^63 − 1", limit=0)
    if not -1 <= committed.leader_epoch <= LEADER_EPOCH_MAX:
        return InvalidRequest(
            f"{name}: leader epoch {committed.leader_epoch} is not between -1 and {LEADER_EPOCH_MAX}"
        )
    return None
