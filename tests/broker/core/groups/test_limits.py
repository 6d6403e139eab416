"""The limits of a coordinator: each refusal names the value and the bound, and affects no other member."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strandline.broker.core.groups.limits import GROUP_BYTES_MAX, GroupLimits
from strandline.broker.core.groups.requests import DescribeGroup, ListGroups, Report
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    StrandlineError,
    UnknownMemberId,
)
from strandline.security.principal import Principal
from strandline.vocabulary.groups import (
    GroupProtocol,
    Heartbeat,
    Joined,
    LeaveGroup,
    LeavingMember,
    MemberIdGiven,
    OffsetFetch,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)
from tests.broker.core.groups.support.stage import GROUP, LIMITS, Stage, partition

LONG = "x" * (GROUP_ID_LENGTH_MAX + 1)


def test_the_limits_are_the_brokers_settings() -> None:
    settings = BrokerSettings(broker_id=1, data_dir=Path("d"), group_members_max=7)
    limits = GroupLimits.of(settings)
    assert limits.group_members_max == 7
    assert limits.offsets_retention_ms == settings.offsets_retention_ms


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"group": ""}, InvalidGroupId, "is empty"),
        ({"group": LONG}, InvalidGroupId, "250 characters, more than 249"),
        ({"group": "a\nb"}, InvalidGroupId, "control character '\\n'"),
        ({"instance": ""}, InvalidRequest, "instance id '' is empty"),
        ({"instance": LONG}, InvalidRequest, "instance id"),
        ({"instance": "a\x7f"}, InvalidRequest, "control character"),
        ({"client_id": LONG}, InvalidRequest, "client id"),
        ({"client_id": "\0"}, InvalidRequest, "client id"),
        ({"protocol_type": LONG}, InvalidRequest, "protocol type"),
        ({"session_timeout_ms": 499}, InvalidSessionTimeout, "499 ms is not between 500 and 1800000"),
        ({"session_timeout_ms": 1_800_001}, InvalidSessionTimeout, "1800001"),
        ({"rebalance_timeout_ms": 0}, InvalidRequest, "rebalance timeout of 0 ms"),
        ({"rebalance_timeout_ms": 1_800_001}, InvalidRequest, "1800001"),
        ({"protocols": ()}, InconsistentGroupProtocol, "0 protocols"),
        ({"protocol_type": ""}, InconsistentGroupProtocol, "protocol type ''"),
        ({"instance": "i", "protocols": (GroupProtocol("", b""),)}, InvalidRequest, "has no name"),
        (
            {"instance": "i", "protocols": (GroupProtocol("a", b""), GroupProtocol("a", b""))},
            InvalidRequest,
            "twice",
        ),
        ({"protocols": tuple(GroupProtocol(str(n), b"") for n in range(33))}, InvalidRequest, "33 protocols"),
        (
            {"protocols": (GroupProtocol("a", b"x" * 131_073),)},
            InvalidRequest,
            "131073 bytes, more than 131072",
        ),
    ],
)
def test_a_join_with_a_value_out_of_bounds_is_refused_and_leaves_no_group(
    changes: dict[str, Any], error: type[StrandlineError], said: str
) -> None:
    stage = Stage()
    assert said in stage.answer(stage.join("", **changes), error).message
    listed = stage.ask(ListGroups())
    assert stage.answers[listed] == ()


def test_a_member_id_that_cannot_be_is_refused() -> None:
    stage = Stage()
    assert "member id" in stage.answer(stage.join(LONG), InvalidRequest).message


def test_ids_in_any_script_are_fine() -> None:
    stage = Stage()
    assert stage.answer(stage.join("", "a", instance="räksmörgås 🦐", client_id="客户"), Joined)


@pytest.mark.parametrize("group", ["", LONG, "a\x1b"])
def test_a_group_id_that_cannot_be_is_refused_everywhere(group: str) -> None:
    stage = Stage()
    for token in (
        stage.join("a", group=group),
        stage.commit({partition(0): 1}, group=group),
        stage.commit({partition(0): 1}, "a", 1, group=group),
        stage.delete(group),
        stage.ask(DescribeGroup(group)),
        stage.ask(SyncGroup(group, "a", 1, "", "")),
        stage.ask(Heartbeat(group, "a", 1)),
        stage.ask(LeaveGroup(group, ())),
        stage.ask(OffsetFetch(group)),
        stage.ask(Report(ReportOwnership(group, "a", 1, ()))),
        stage.ask(ReportTasks(group, "a", 1, ())),
    ):
        assert stage.answer(token, InvalidGroupId).limit == GROUP_ID_LENGTH_MAX


def test_a_full_group_takes_no_new_member_and_keeps_the_others() -> None:
    stage = Stage(replace(LIMITS, group_members_max=3))
    stage.stable("a", "b", "c")
    for changes in ({}, {"instance": "i"}):
        error = stage.answer(stage.join("", "d", **changes), GroupMaxSizeReached)
        assert "has 3 members; it may have 3" in error.message
        assert error.limit == 3
    assert stage.state == "Stable"
    stage.leave(LeavingMember("c"))
    assert stage.answer(stage.join("", "d"), MemberIdGiven)


@pytest.mark.parametrize("named", [True, False], ids=["by principal", "by address"])
def test_ids_that_nobody_joins_with_keep_no_other_caller_out(named: bool) -> None:
    """A20: the oldest of the caller that has most is forgotten for a newcomer; members are never."""
    stage = Stage(replace(LIMITS, group_members_max=6))

    def ask(caller: str, member: str, **changes: str) -> str:
        stage.by = Principal(caller) if named else None
        stage.host = "192.0.2.1" if named else caller
        return stage.join("", member, **changes)

    stage.by = Principal("alice") if named else None
    stage.stable("a")
    for number in range(20):
        assert stage.answer(ask("mallory", f"m-{number}"), MemberIdGiven)
    assert stage.answer(ask("alice", "b"), MemberIdGiven)
    assert stage.answer(ask("mallory", "m-20"), MemberIdGiven)
    assert stage.answer(ask("alice", "c"), MemberIdGiven)
    assert stage.answer(ask("mallory", "m-21"), MemberIdGiven)
    assert list(stage.core._groups[GROUP].pending) == ["m-19", "b", "m-20", "c", "m-21"]
    assert stage.answer(ask("mallory", "m-22"), MemberIdGiven)
    stage.by = Principal("alice") if named else None
    stage.join("b"), stage.join("c"), stage.join("a")
    assert {each.member for each in stage.describe().members} == {"a", "b", "c"}
    stage.by = Principal("mallory") if named else None
    assert stage.answer(stage.join("m-3"), UnknownMemberId)


def test_a_full_group_of_one_caller_gives_its_oldest_id_to_the_newest() -> None:
    """A client that asks again and again, as one whose answers are lost, is not locked out by itself."""
    stage = Stage(replace(LIMITS, group_members_max=3))
    stage.stable("a")
    for member in ("b", "c", "d", "e"):
        assert stage.answer(stage.join("", member), MemberIdGiven)
    assert stage.answer(stage.join("b"), UnknownMemberId)
    stage.join("d"), stage.join("e"), stage.join("a")
    assert {each.member for each in stage.describe().members} == {"a", "d", "e"}


def test_a_coordinator_keeps_a_limited_number_of_groups() -> None:
    stage = Stage(replace(LIMITS, groups_max=2))
    stage.commit({partition(0): 1}, group="one")
    stage.stable("a")
    for token in (stage.commit({partition(0): 1}, group="three"), stage.join("", group="four")):
        error = stage.answer(token, InvalidRequest)
        assert "one more than the 2" in error.message
        assert error.limit == 2
    assert stage.committed("one") == {partition(0): 1}


def test_a_group_grows_only_to_the_bound_of_its_record() -> None:
    """Its members are written down together: one too many must not stop the others."""
    stage = Stage()
    stage.writing = False
    large = (GroupProtocol("range", b"x" * 131_072),)
    size = 0
    while isinstance(stage.answers[stage.join("", f"m{size}", protocols=large)], MemberIdGiven):
        stage.join(f"m{size}", protocols=large)
        size += 1
    assert size == GROUP_BYTES_MAX // 131_072 - 1
    refused = stage.answer(str(stage.asked), InvalidRequest)
    assert refused.limit == GROUP_BYTES_MAX
    assert "readers would be" in refused.message
    stage.written()
    stage.written()
    assert len(stage.describe().members) == size


def test_reasons_are_cut_and_not_refused() -> None:
    stage = Stage()
    stage.stable("a", "b")
    stage.leave(LeavingMember("b", reason="\tlong " + "story " * 100))
    reason = stage.describe().reason
    assert reason.startswith("member b left: long story")
    assert len(reason) < GROUP_ID_LENGTH_MAX + 20
