"""ACLs by the admin clients of other projects."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as PythonResourceType

from strandline.errors import ErrorCode
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory

SECURE = {"authorizer": "acl", "super_users": "User:ANONYMOUS"}
ANSWER_S_MAX = 20.0


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(
        brokers=1, kafka=True, broker_settings=SECURE, controller_settings=SECURE
    )


async def done(future: Future[Any]) -> Any:
    return await asyncio.to_thread(future.result, ANSWER_S_MAX)


def binding(name: str, principal: str = "User:alice") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.PREFIXED,
        principal,
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )


def matching(of: ResourceType, name: str | None, pattern_type: ResourcePatternType) -> AclBindingFilter:
    every: Any = None  # the library's annotations do not know that it is allowed
    named: Any = name
    return AclBindingFilter(of, named, pattern_type, every, every, AclOperation.ANY, AclPermissionType.ANY)


EVERY = matching(ResourceType.ANY, None, ResourcePatternType.ANY)


async def test_librdkafka_creates_describes_and_deletes_acls(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    wanted = [binding("tides"), binding("waves")]
    for future in admin.create_acls(wanted).values():
        await done(future)
    assert set(await done(admin.describe_acls(EVERY))) == set(wanted)
    of_july = matching(ResourceType.TOPIC, "tides-of-july", ResourcePatternType.MATCH)
    (deleted,) = admin.delete_acls([of_july]).values()
    assert await done(deleted) == wanted[:1]
    assert await done(admin.describe_acls(EVERY)) == wanted[1:]
    (refused,) = admin.create_acls([binding("x", principal="alice")]).values()
    with pytest.raises(KafkaException) as error:
        await done(refused)
    assert error.value.args[0].code() == ErrorCode.INVALID_REQUEST


async def test_kafka_python_creates_describes_and_deletes_acls(cluster: LocalCluster) -> None:
    def use() -> None:
        admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
        try:
            pattern = ResourcePattern(PythonResourceType.GROUP, "a/b")
            acl = ACL("User:bob", "*", ACLOperation.READ, ACLPermissionType.DENY, pattern)
            admin.create_acls([acl])
            of_groups = ResourcePatternFilter(PythonResourceType.GROUP, None, ACLResourcePatternType.ANY)
            every = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, of_groups)
            described, _ = admin.describe_acls(every)
            assert described == [acl]
            admin.delete_acls([every])
            described, _ = admin.describe_acls(every)
            assert described == []
        finally:
            admin.close()

    await asyncio.to_thread(use)
