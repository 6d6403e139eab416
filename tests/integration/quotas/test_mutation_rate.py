"""Who creates topics beyond its `controller_mutation_rate` is refused, and told when to try again."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from strandline import Admin
from strandline.errors import ErrorCode, ThrottlingQuotaExceeded
from strandline.local.cluster import LocalCluster
from strandline.security.login.mechanisms import SCRAM_SHA_256
from strandline.security.quotas.model import Quota, QuotaAlteration, QuotaEntity
from strandline.vocabulary.admin import NewTopic as OwnTopic
from tests.conftest import ClusterFactory
from tests.integration.security.logins.support.kafka_clients import logs_in, of_librdkafka
from tests.waiting import eventually

ANSWER_S_MAX = 20.0
SETTINGS = {"kafka_security_protocol": "SASL_PLAINTEXT", "sasl_enabled_mechanisms": SCRAM_SHA_256}
OVER = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
FOUR = 4
"""Partitions: more than a second's worth, so the next topic of the same request is refused."""


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """The user alice and the client id app may change two partitions a second."""
    made = await make_module_cluster(brokers=1, broker_settings=SETTINGS, kafka=True)
    rate = {Quota.CONTROLLER_MUTATION_RATE: 2.0}
    async with Admin(made.bootstrap) as admin:
        for user in ("alice", "bob"):
            await admin.set_user(user, "secret", mechanisms=(SCRAM_SHA_256,))
        entities = QuotaEntity("alice"), QuotaEntity(client_id="app")
        await admin.alter_client_quotas([QuotaAlteration(each, rate) for each in entities])
    for user in ("alice", "bob"):
        await eventually(partial(logs_in, made, user, "secret", SCRAM_SHA_256), what=f"{user} logs in")
    return made


def kafka_admin(cluster: LocalCluster, user: str, client_id: str = "x") -> AdminClient:
    of_user = of_librdkafka(cluster, SCRAM_SHA_256, user, "secret")
    return AdminClient({**of_user, "client.id": client_id})


async def code(future: Any) -> int:
    """Of the outcome of one topic; 0: it was changed."""
    try:
        await asyncio.to_thread(future.result, ANSWER_S_MAX)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


async def create(admin: AdminClient, *names: str) -> list[int]:
    futures = admin.create_topics([NewTopic(name, FOUR, 1) for name in names])
    return [await code(futures[name]) for name in names]


async def test_a_kafka_client_is_refused_what_is_beyond_the_rate_of_its_user(cluster: LocalCluster) -> None:
    """It succeeds later; and another user is not affected meanwhile."""
    alice, bob = kafka_admin(cluster, "alice"), kafka_admin(cluster, "bob")
    assert await create(alice, "a-1", "a-2", "a-3") == [0, OVER, OVER]
    assert await create(bob, "b-1", "b-2", "b-3") == [0, 0, 0]

    async def created() -> bool:
        found = await create(alice, "a-2")
        assert found in ([0], [OVER])
        return found == [0]

    await eventually(created, deadline_s=30, what="alice creates the topic that was refused")
    (grown,) = alice.create_partitions([NewPartitions("a-1", 2 * FOUR)]).values()
    (deleted,) = alice.delete_topics(["a-2"]).values()
    assert {await code(grown), await code(deleted)} <= {0, OVER}


async def test_a_kafka_client_is_refused_what_is_beyond_the_rate_of_its_client_id(
    cluster: LocalCluster,
) -> None:
    """Once its broker knows of a quota for the client id."""
    app, other = kafka_admin(cluster, "bob", "app"), kafka_admin(cluster, "bob", "other")
    tries = 0

    async def refused() -> bool:
        nonlocal tries
        tries += 1
        return await create(app, f"c-{tries}", f"d-{tries}") == [0, OVER]

    await eventually(refused, deadline_s=30, what="the client id has a quota")
    assert await create(other, "e-1", "e-2") == [0, 0]


async def test_a_client_of_strandline_learns_when_to_try_again(cluster: LocalCluster) -> None:
    topics = [OwnTopic("f", FOUR), OwnTopic("g", FOUR)]
    async with Admin(cluster.bootstrap, client_id="app") as admin:

        async def refused() -> ThrottlingQuotaExceeded:
            with pytest.raises(ThrottlingQuotaExceeded) as error:
                await admin.create_topics(topics)
            return error.value

        error = await refused()
        assert error.retriable and error.retry_after_ms is not None and error.retry_after_ms > 0
        assert "controller_mutation_rate" in error.message and "try again in" in error.message
    async with Admin(cluster.bootstrap, client_id="other") as admin:
        await admin.create_topics([OwnTopic("h", FOUR), OwnTopic("i", FOUR)])
