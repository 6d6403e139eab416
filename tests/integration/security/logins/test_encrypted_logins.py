"""strandline's own clients log in over encrypted connections, and hear what is wrong with their settings."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from strandline import Admin, Consumer, OauthToken, Producer
from strandline.adapters.codecs.log import METADATA
from strandline.adapters.rpc.logins.bearer import bearer_metadata
from strandline.adapters.rpc.logins.of_client import ClientLogin
from strandline.adapters.rpc.logins.of_transport import TransportLogins
from strandline.adapters.rpc.logins.refusals import Refusals
from strandline.adapters.rpc.transport import CHANNEL_OPTIONS
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.tls.channels import Link
from strandline.adapters.tls.grpc_credentials import open_channel
from strandline.adapters.tls.pem import read_pem
from strandline.config.client import ClientSettings
from strandline.errors import AuthenticationFailed, IllegalSaslState, StrandlineError
from strandline.local.cluster import LocalCluster
from strandline.local.ports import LOOPBACK, free_ports
from strandline.security.acls import PatternType
from strandline.security.login.mechanisms import OAUTHBEARER, PLAIN
from strandline.security.principal import Principal
from strandline.security.rights import CREATE_TOPIC, READ_GROUP, READ_TOPIC, WRITE_TOPIC
from strandline.vocabulary.log import MetadataQuery
from tests.conftest import ClusterFactory
from tests.integration.security.logins.support.users import (
    MECHANISMS,
    PASSWORD,
    client,
    with_password_file,
    with_users,
)
from tests.integration.security.support.bindings import binding
from tests.integration.streams.application import feeding, streaming
from tests.integration.streams.verdict import exactly_once
from tests.issuer import AUDIENCE, ISSUER, Issuer
from tests.strandline.cli.support.cli_process import strandline
from tests.tls_files import Files, TestAuthority

SECONDS: Final = 20.0
SAID_S_MAX: Final = 8.0
"""A client knows that it is refused before a request times out, which takes ten seconds."""
COUNTER: Final = Principal("counter")
"""Its application's topics and group are all that it may use."""
PROVIDED: Final = "provided tokens"


@dataclass(frozen=True)
class Stage:
    cluster: LocalCluster
    folder: Path
    shown: Files
    """A certificate of the cluster's authority."""
    issuer: Issuer = field(default_factory=Issuer)

    @property
    def encrypted(self) -> dict[str, Any]:
        return {"security_protocol": "SASL_SSL", "ssl_cafile": str(self.shown.cafile)}

    async def token(self) -> OauthToken:
        ends_at_ms = SystemClock().wall_ms() + 600_000
        return OauthToken(self.issuer.token(ends_at_ms / 1000, sub="root"), ends_at_ms)

    def client(self, **other: Any) -> dict[str, Any]:
        if other.get("mechanism") == OAUTHBEARER:
            token = {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_file": str(self.folder / "token")}
            return {**token, **self.encrypted}
        if other.get("mechanism") == PROVIDED:
            return {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": self.token, **self.encrypted}
        return {**client(**other), **self.encrypted}


@pytest.fixture(scope="module")
async def stage(make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Members follow each other over a port with logins, by their key."""
    folder = tmp_path_factory.mktemp("users")
    authority = await asyncio.to_thread(TestAuthority, folder / "tls")
    shown = await asyncio.to_thread(authority.issue, "member")
    settings = {
        **shown.settings,
        "security_protocol": "SASL_SSL",
        "sasl_enabled_mechanisms": ",".join([*MECHANISMS, PLAIN, OAUTHBEARER]),
        "sasl_oauthbearer_jwks_file": str(folder / "keys.json"),
        "sasl_oauthbearer_expected_issuer": ISSUER,
        "sasl_oauthbearer_expected_audience": AUDIENCE,
        "authorizer": "acl",
        "super_users": "User:root",
        "super_users_by_token": True,
    }
    issuer = Issuer()
    (folder / "keys.json").write_bytes(issuer.jwks)
    (folder / "token").write_text(issuer.token(SystemClock().wall_ms() / 1000 + 600, sub="root"))
    (folder / "token").chmod(0o600)
    made = await make_module_cluster(brokers=2, broker_settings=settings, controller_settings=settings)
    stage = Stage(made, folder, shown, issuer)
    await with_users(made, folder, COUNTER.name, **stage.encrypted)
    return stage


@pytest.mark.parametrize("mechanism", [*MECHANISMS, PLAIN, OAUTHBEARER, PROVIDED])
async def test_a_client_logs_in(stage: Stage, mechanism: str) -> None:
    """A11: a password or a token takes the place of a client's certificate."""
    topic, settings = f"tides-{mechanism}".replace(" ", "-"), stage.client(mechanism=mechanism)
    async with Admin(stage.cluster.bootstrap, **settings) as admin:
        await admin.create_topic(topic, partitions=2, replication_factor=2)
    async with Producer(stage.cluster.bootstrap, **settings) as producer:
        for partition in range(2):
            await producer.send_and_wait(topic, b"high", partition=partition)
    settings |= {"group_id": topic, "offset_reset": "earliest"}
    async with Consumer(stage.cluster.bootstrap, **settings) as consumer:
        consumer.subscribe([topic])
        async with asyncio.timeout(SECONDS):
            read = [await consumer.getone() for _ in range(2)]
    assert sorted(record.partition for record in read) == [0, 1]


@pytest.mark.parametrize("mechanism", [*MECHANISMS, PLAIN])
@pytest.mark.parametrize("name, password", [("root", "guess"), ("stranger", PASSWORD)])
async def test_a_refused_login_is_final(stage: Stage, mechanism: str, name: str, password: str) -> None:
    """A10"""
    settings = stage.client(name=name, mechanism=mechanism, password=password)
    async with Admin(stage.cluster.bootstrap, **settings) as admin, asyncio.timeout(SAID_S_MAX):
        with pytest.raises(AuthenticationFailed, match="the name or the password is wrong"):
            await admin.list_topics()


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_stream_task_moves_with_its_state(stage: Stage, tmp_path: Path) -> None:
    """A11 and S5: another member learns its state and takes it over, and each line is counted once. Members
    read their password from its file, and have the rights that docs/use/streams.md names."""
    of_member = with_password_file(stage.client(name=COUNTER.name), stage.folder / "password")
    streams = streaming(
        stage.cluster, tmp_path, replicas=2, connecting=stage.client(), replication_factor=2, **of_member
    )
    async with streams as app, feeding(app) as feed:
        rights = (READ_TOPIC, WRITE_TOPIC, CREATE_TOPIC, READ_GROUP)
        async with Admin(stage.cluster.bootstrap, **stage.client()) as admin:
            await admin.create_acls(
                [binding(right, app.id, kind=PatternType.PREFIXED, principal=COUNTER) for right in rights]
            )
        one = await app.start()
        await app.running(one)
        two = await app.start()
        await app.running(one, two)
        assert [task for task in two.running if not two.learned(task)] == []
        await feed.finish()
        _ = await exactly_once(app)


async def refused(address: str, settings: dict[str, Any]) -> StrandlineError:
    async with Admin(address, **settings) as admin, asyncio.timeout(SAID_S_MAX):
        with pytest.raises(StrandlineError) as failed:
            await admin.list_topics()
    return failed.value


async def test_a_client_with_another_protocol_hears_what_is_wrong(stage: Stage) -> None:
    """A10: at once, and for good."""
    address = stage.cluster.bootstrap.partition(",")[0]
    for settings in ({}, client()):
        error = await refused(address, settings)
        assert isinstance(error, AuthenticationFailed) and "SSL or SASL_SSL" in error.message
    error = await refused(address, stage.shown.settings)
    assert isinstance(error, IllegalSaslState) and "log in first" in error.message


async def test_a_server_of_an_unknown_authority_gets_no_password(stage: Stage, tmp_path: Path) -> None:
    """X12: a client that logs in refuses it first, for good."""
    theirs = await asyncio.to_thread(TestAuthority, tmp_path / "theirs")
    settings = stage.client() | {"ssl_cafile": str(theirs.cafile)}
    error = await refused(stage.cluster.bootstrap, settings)
    assert isinstance(error, AuthenticationFailed) and "unable to get local issuer" in error.message


async def test_a_session_counts_on_its_own_connection_alone(stage: Stage) -> None:
    """A11: a session of another connection is none, and neither is one that never was."""
    address, settings = stage.cluster.address(1), ClientSettings(**stage.client())
    login = ClientLogin.of(settings, lambda: "nonce", SystemClock())
    assert login is not None
    first, second = (open_channel(address, read_pem(settings), CHANNEL_OPTIONS) for _ in range(2))
    logins = TransportLogins(login, SystemClock(), Refusals(0))
    session = (await logins.session(address, Link(first, None))).token

    async def refusal(channel: grpc.aio.Channel, token: str) -> StrandlineError | None:
        multi: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METADATA.path)
        try:
            await multi(METADATA.encode(MetadataQuery(None)), metadata=bearer_metadata(token))
        except grpc.aio.AioRpcError as error:
            return error_of_call(error)
        return None

    assert await refusal(first, session) is None
    assert isinstance(await refusal(second, session), IllegalSaslState)
    assert isinstance(await refusal(first, "guess"), IllegalSaslState)
    for channel in (first, second):
        await channel.close()


def wrong_tokens(issuer: Issuer) -> dict[str, str]:
    """Tokens of root, if they counted."""
    now = SystemClock().wall_ms() / 1000
    of_root = partial(issuer.token, now + 600, sub="root")
    named = {"kid": issuer.kid("RS256")}
    public = json.loads(issuer.jwks)["keys"][0]["n"]
    return {
        "expired": issuer.token(now - 600, sub="root"),
        "for another audience": of_root(aud="waves"),
        "of another issuer": of_root(iss="https://stranger.example"),
        "signed by another": Issuer().token(now + 600, sub="root"),
        "signed by nobody": of_root(algorithm="none", key="", headers=named),
        "signed with the public key": of_root(algorithm="HS256", key=public, headers=named),
        "of an unknown key": of_root(headers={"kid": "another"}),
    }


async def test_a_token_that_does_not_count_is_refused(stage: Stage) -> None:
    """A16: for good, and with the same words for each fault."""
    said: dict[str, str] = {}
    for wrong, token in wrong_tokens(stage.issuer).items():
        file = stage.folder / "wrong-token"
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(token)
        shown = {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_file": str(file)}
        error = await refused(stage.cluster.address(1), shown | stage.encrypted)
        assert isinstance(error, AuthenticationFailed), wrong
        said[wrong] = error.message
    assert len(set(said.values())) == 1, said


async def test_the_command_line_logs_in(stage: Stage) -> None:
    """A11: the password is in a file, and no error shows it."""
    lines = [f'{name} = "{value}"' for name, value in stage.client().items() if name != "sasl_password"]
    file = stage.folder / "client.toml"
    file.write_text("\n".join([*lines, f'sasl_password_file = "{stage.folder}/password"']))
    common = ["--bootstrap", stage.cluster.bootstrap, "--command-config", str(file)]
    ended = await strandline("topic", "create", "of-the-command-line", *common)
    assert ended.status == 0, ended.err
    (stage.folder / "password").chmod(0o644)
    ended = await strandline("topic", "list", *common)
    assert ended.status == 1 and "other users may read it" in ended.err
    (stage.folder / "password").chmod(0o600)


async def test_only_the_external_port_has_logins(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """A11: members and their clients show certificates at the first port, and clients log in at the other."""
    authority = await asyncio.to_thread(TestAuthority, tmp_path / "tls")
    shown = await asyncio.to_thread(authority.issue, "member")
    ports = free_ports(2)
    settings = {
        **shown.settings,
        "external_host": LOOPBACK,
        "external_security_protocol": "SASL_SSL",
        "sasl_enabled_mechanisms": ",".join(MECHANISMS),
    }
    made = await make_cluster(
        brokers=1,
        broker_settings={**settings, "external_port": ports[0]},
        controller_settings={**settings, "external_port": ports[1]},
    )
    stage, address = Stage(made, tmp_path, shown), f"{LOOPBACK}:{ports[0]}"
    await with_users(made, tmp_path, addresses=address, **stage.encrypted)
    async with Admin(address, **stage.client()) as admin:
        await admin.create_topic("tides")
    async with Producer(address, **stage.client()) as producer:
        await producer.send_and_wait("tides", b"high")
    async with Admin(made.bootstrap, **shown.settings) as admin:
        assert "tides" in await admin.list_topics()
    error = await refused(made.bootstrap, stage.client())
    assert isinstance(error, AuthenticationFailed) and "demands a certificate" in error.message
