"""What the audit log says of each admin request (A15)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from strandline.controller.api.changes import CHANGES, changes
from strandline.errors import OutcomeUnknown, TopicAlreadyExists
from strandline.ids import BrokerId, TopicId, TopicPartition
from strandline.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    Permission,
    ResourcePattern,
)
from strandline.security.calls import RPCS
from strandline.security.login.credentials import UserChange, make_credential
from strandline.security.login.mechanisms import SCRAM_SHA_512
from strandline.security.principal import Principal
from strandline.security.quotas.model import Quota, QuotaAlteration, QuotaEntity
from strandline.security.rights import READ_TOPIC
from strandline.vocabulary.admin import (
    AclResult,
    AlterClientQuotas,
    AlterTopic,
    BalanceAction,
    BalanceDescription,
    BalancePlan,
    BrokerCheck,
    CheckBroker,
    CreateTopics,
    DeletedAcls,
    DeleteTopics,
    DrainBroker,
    DrainProgress,
    ElectUnclean,
    ForgetBroker,
    ForgottenBroker,
    NewTopic,
    PartitionReassignment,
    PartitionResult,
    QuotaResult,
    Reassign,
    StartBalance,
    TopicResult,
    UncleanElection,
    UserResult,
)
from strandline.vocabulary.configs.groups import (
    AlterGroupConfigs,
    GroupConfigAlteration,
    GroupConfigResult,
)
from strandline.vocabulary.metadata import BalanceMove, BalanceState

ADMIN = "/strandline.v1.Admin/"
FIRST = TopicPartition("tides", 0)
SALT = b"a salt of sixteen"
CREDENTIAL = make_credential(SCRAM_SHA_512, "a password", SALT, 4_096)
ACL = AclBinding(
    ResourcePattern(READ_TOPIC.of, "tides"), Principal("bob"), "*", READ_TOPIC.operation, Permission.ALLOW
)
QUOTA = QuotaEntity("bob")
LIMIT = QuotaAlteration(QUOTA, {Quota.PRODUCER_BYTE_RATE: 5.0, Quota.CONSUMER_BYTE_RATE: None})
SIZE = {"config": {}, "partitions": 1, "replication_factor": 1}
EXISTS, UNKNOWN = TopicAlreadyExists("it is there"), OutcomeUnknown("it may be done")

CASES: dict[str, tuple[Any, Any, list[tuple[str, str, dict[str, Any]]]]] = {
    "CreateTopics": (
        CreateTopics([NewTopic("a"), NewTopic("b"), NewTopic("c", 0, assignments=[[1, 2]])], False),
        [TopicResult("a", UNKNOWN), TopicResult("b", EXISTS), TopicResult("c")],
        [
            ("CREATE TOPIC", "a", SIZE),
            ("CREATE TOPIC", "c", {"config": {}, "assignments": [[1, 2]]}),
        ],
    ),
    "DeleteTopics": (
        DeleteTopics(["a"], ["id"]),
        [TopicResult("a")],
        [("DELETE TOPIC", "a", {})],
    ),
    "AlterTopic": (
        AlterTopic("a", {"retention.ms": "5"}, ["cleanup.policy"], 3),
        None,
        [
            ("ALTER_CONFIGS TOPIC", "a", {"set": {"retention.ms": "5"}, "unset": ["cleanup.policy"]}),
            ("ALTER TOPIC", "a", {"partitions": 3, "assignments": []}),
        ],
    ),
    "Reassign": (
        Reassign(
            [PartitionReassignment(FIRST, (2, 3)), PartitionReassignment(FIRST, (), only_throttle=True)], 7
        ),
        [PartitionResult(FIRST)] * 2,
        [
            (
                "ALTER CLUSTER",
                CLUSTER_NAME,
                {
                    "partition": "tides-0",
                    "replicas": [2, 3],
                    "throttle_bytes_per_s": 7,
                    "timeout_ms": 0,
                    "cancel_at_deadline": False,
                },
            ),
            ("ALTER CLUSTER", CLUSTER_NAME, {"partition": "tides-0", "throttle_bytes_per_s": 7}),
        ],
    ),
    "ElectPreferred": (
        [],
        [PartitionResult(FIRST)],
        [("ALTER CLUSTER", CLUSTER_NAME, {"election": "preferred", "partition": "tides-0"})],
    ),
    "ElectUnclean": (
        ElectUnclean([FIRST]),
        [UncleanElection(FIRST, broker=2)],
        [("ALTER CLUSTER", CLUSTER_NAME, {"election": "unclean", "partition": "tides-0", "broker": 2})],
    ),
    "DrainBroker": (
        DrainBroker(2, replicas=True),
        DrainProgress(1, 1, ()),
        [
            (
                "ALTER CLUSTER",
                CLUSTER_NAME,
                {
                    "drain": 2,
                    "replicas": True,
                    "undo": False,
                    "throttle_bytes_per_s": 0,
                    "until_restart": False,
                },
            )
        ],
    ),
    "ForgetBroker": (
        ForgetBroker(2),
        ForgottenBroker(True, 3),
        [("ALTER CLUSTER", CLUSTER_NAME, {"forget": 2, "requests": 3})],
    ),
    "Balance": (
        StartBalance((1, 4), ("tides",), 7),
        BalancePlan((BalanceMove(FIRST, TopicId("i"), (BrokerId(1),), (BrokerId(4),)),), ()),
        [
            (
                "ALTER CLUSTER",
                CLUSTER_NAME,
                {
                    "balance": "start",
                    "brokers": [1, 4],
                    "topics": ["tides"],
                    "moves": 1,
                    "throttle_bytes_per_s": 7,
                },
            )
        ],
    ),
    "AlterBalance": (
        BalanceAction.REVERT,
        BalanceDescription(BalanceState.CANCELLED),
        [("ALTER CLUSTER", CLUSTER_NAME, {"balance": "revert"})],
    ),
    "CheckBroker": (
        CheckBroker(2, end_drain=True),
        BrokerCheck(True, (), 0, 0, drain_ended=True),
        [("ALTER CLUSTER", CLUSTER_NAME, {"drain": 2, "undo": True})],
    ),
    "CreateAcls": (
        [ACL],
        [AclResult(ACL)],
        [("ALTER CLUSTER", CLUSTER_NAME, {"create_acl": str(ACL)})],
    ),
    "DeleteAcls": (
        [AclFilter()],
        [DeletedAcls((AclResult(ACL),))],
        [("ALTER CLUSTER", CLUSTER_NAME, {"delete_acl": str(ACL)})],
    ),
    "AlterUserScramCredentials": (
        [UserChange("bob", SCRAM_SHA_512, CREDENTIAL), UserChange("eve", SCRAM_SHA_512)],
        [UserResult("bob"), UserResult("eve")],
        [
            ("ALTER CLUSTER", CLUSTER_NAME, {"user": "bob", "set": SCRAM_SHA_512}),
            ("ALTER CLUSTER", CLUSTER_NAME, {"user": "eve", "delete": SCRAM_SHA_512}),
        ],
    ),
    "AlterClientQuotas": (
        AlterClientQuotas((LIMIT,)),
        [QuotaResult(QUOTA)],
        [
            (
                "ALTER_CONFIGS CLUSTER",
                CLUSTER_NAME,
                {
                    "quota": {"user": "bob", "client_id": None},
                    "limits": {"producer_byte_rate": 5.0, "consumer_byte_rate": None},
                },
            )
        ],
    ),
    "AlterGroupConfigs": (
        AlterGroupConfigs((GroupConfigAlteration("g", {"consumer.session.timeout.ms": "50000"}, ["x"]),)),
        [GroupConfigResult("g")],
        [
            (
                "ALTER_CONFIGS GROUP",
                "g",
                {"set": {"consumer.session.timeout.ms": "50000"}, "unset": ["x"], "replace": False},
            )
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_request_says_what_it_changed_and_nothing_that_is_secret(name: str) -> None:
    """A15: without what failed, but with what may have been done."""
    request, answer, expected = CASES[name]
    found = changes(ADMIN + name, request, answer)
    assert [(str(each.right), each.name, each.arguments) for each in found] == expected
    text = json.dumps([each.arguments for each in found])
    for secret in (CREDENTIAL.salt, CREDENTIAL.stored_key, CREDENTIAL.server_key):
        assert secret.hex() not in text and repr(secret)[2:-1] not in text


def test_a_quota_of_an_address_names_it_alone() -> None:
    """A15"""
    entity, limits = QuotaEntity(ip="192.0.2.1"), {Quota.CONNECTION_CREATION_RATE: 5.0}
    asked = AlterClientQuotas((QuotaAlteration(entity, limits),))
    (found,) = changes(ADMIN + "AlterClientQuotas", asked, [QuotaResult(entity)])
    assert found.arguments == {
        "quota": {"ip": "192.0.2.1"},
        "limits": {"connection_creation_rate": 5.0},
    }


def test_a_request_that_only_validates_changes_nothing() -> None:
    """A15"""
    request, answer, _ = CASES["CreateTopics"]
    assert changes(ADMIN + "CreateTopics", replace(request, validate_only=True), answer) == []


def test_every_request_that_changes_something_has_an_entry() -> None:
    """A15: a row that needs another right than DESCRIBE is one of a change."""
    only_asks = {Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}
    changing = {
        path
        for path, row in RPCS.items()
        if path.startswith(ADMIN) and any(right.operation not in only_asks for right in row.rights)
    }
    assert CHANGES.keys() == changing == {ADMIN + name for name in CASES}
