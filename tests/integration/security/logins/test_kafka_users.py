"""Users by the admin clients of other projects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism as PythonMechanism
from kafka.admin import UserScramCredentialDeletion as PythonDeletion
from kafka.admin import UserScramCredentialUpsertion as PythonUpsertion

from strandline import Admin
from strandline.broker.kafka.errors import KafkaCode
from strandline.errors import ErrorCode
from strandline.local.cluster import LocalCluster
from strandline.security.login.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tests.conftest import ClusterFactory
from tests.integration.security.logins.support.kafka_clients import logs_in, of_librdkafka, of_python
from tests.waiting import eventually

SETTINGS = {
    "kafka_security_protocol": "SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": f"{SCRAM_SHA_256},{SCRAM_SHA_512}",
}
ANSWER_S_MAX = 20.0


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """With the user `admin`."""
    made = await make_module_cluster(brokers=1, broker_settings=SETTINGS, kafka=True)
    async with Admin(made.bootstrap) as admin:
        await admin.set_user("admin", "secret", mechanisms=(SCRAM_SHA_256,))
    await eventually(lambda: logs_in(made, "admin", "secret", SCRAM_SHA_256), what="the admin logs in")
    return made


async def done(future: Any) -> Any:
    """The result of a librdkafka future."""
    return await asyncio.to_thread(future.result, ANSWER_S_MAX)


async def refusal(future: Any) -> int:
    with pytest.raises(KafkaException) as error:
        await done(future)
    return int(error.value.args[0].code())


async def test_librdkafka_sets_describes_and_deletes_users(cluster: LocalCluster) -> None:
    """A11: and a user that it set logs in."""
    admin = AdminClient(of_librdkafka(cluster, SCRAM_SHA_256, "admin", "secret"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
    altered = admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion("alice", info, b"wonderland"),
            UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512),
        ]
    )
    await done(altered["alice"])
    assert await refusal(altered["nobody"]) == ErrorCode.RESOURCE_NOT_FOUND
    await eventually(lambda: logs_in(cluster, "alice", "wonderland", SCRAM_SHA_256), what="alice logs in")

    every = await done(admin.describe_user_scram_credentials())
    assert sorted(every) == ["admin", "alice"]
    (found,) = every["alice"].scram_credential_infos
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_256, 4_096)
    named: Any = admin.describe_user_scram_credentials(["alice", "bob"])
    assert (await done(named["alice"])).user == "alice"
    assert await refusal(named["bob"]) == ErrorCode.RESOURCE_NOT_FOUND

    few = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1)
    (refused,) = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("alice", few, b"wonderland")]
    ).values()
    assert await refusal(refused) == KafkaCode.UNACCEPTABLE_CREDENTIAL
    (deleted,) = admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256)]
    ).values()
    await done(deleted)
    assert sorted(await done(admin.describe_user_scram_credentials())) == ["admin"]


async def test_kafka_python_sets_describes_and_deletes_users(cluster: LocalCluster) -> None:
    """A11"""
    of_client = of_python(cluster, SCRAM_SHA_256, "admin", "secret")

    def use() -> None:
        admin = KafkaAdminClient(**of_client)
        try:
            bob = PythonUpsertion("bob", PythonMechanism.SCRAM_SHA_512, "builder")
            assert admin.alter_user_scram_credentials([bob]) == {"bob": None}
            found = admin.describe_user_scram_credentials(["bob"])["bob"]
            iterations = PythonUpsertion.DEFAULT_ITERATIONS
            assert found["credential_infos"] == [
                {"mechanism": PythonMechanism.SCRAM_SHA_512, "iterations": iterations}
            ]
            gone = PythonDeletion("bob", PythonMechanism.SCRAM_SHA_512)
            assert admin.alter_user_scram_credentials([gone]) == {"bob": None}
            assert sorted(admin.describe_user_scram_credentials()) == ["admin"]
        finally:
            admin.close()

    await asyncio.to_thread(use)
