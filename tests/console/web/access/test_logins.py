"""Browsers log in as users of the cluster, whose ACLs decide what each sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from strandline import Admin
from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.core.seen import Seen
from strandline.console.process import running
from strandline.console.web.admins import Connection
from strandline.console.web.app import application
from strandline.console.web.context import Console
from strandline.errors import SettingsError
from strandline.local.cluster import LocalCluster
from strandline.security.acls import (
    AclBinding,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.login.mechanisms import SCRAM_SHA_512
from strandline.security.principal import Principal
from strandline.testing import MemoryCluster
from tests.conftest import ClusterFactory
from tests.console.web.browser import Browser
from tests.console.web.changes import done, hidden, planned
from tests.console.web.consoles import browser_of, console_of
from tests.integration.security.logins.support.users import PASSWORD, client, with_users
from tests.waiting import eventually

OF_MEMBERS: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": SCRAM_SHA_512,
    "authorizer": "acl",
    "super_users": "User:root",
}
FAILED_MAX = 3
ALICE = {"user": "alice", "password": PASSWORD}


@pytest.fixture(scope="module")
async def cluster(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> LocalCluster:
    """Topics `tides` and `ships`; alice may describe and read only the first."""
    made = await make_module_cluster(brokers=1, broker_settings=OF_MEMBERS, controller_settings=OF_MEMBERS)
    cluster = await with_users(made, tmp_path_factory.mktemp("users"), "alice")
    async with Admin(cluster.bootstrap, **client()) as admin:
        for topic in ("tides", "ships"):
            await admin.create_topic(topic, partitions=1, replication_factor=1)
        allowed = AclBinding(
            ResourcePattern(ResourceType.TOPIC, "tides"),
            Principal("alice"),
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
        await admin.create_acls([allowed])
    return cluster


@pytest.fixture
async def console(cluster: LocalCluster) -> AsyncIterator[Console]:
    settings = load(ConsoleSettings, login=True, failed_logins_per_minute_max=FAILED_MAX, sessions_max=2)
    async with running(settings, Connection(cluster.bootstrap, client())) as console:
        await eventually(
            lambda: len(console.cluster.seen.topics) >= 2, what="the console has seen the topics"
        )
        yield console


async def logged_in(console: Console, user: str) -> Browser:
    browser = Browser(application(console))
    answer = await browser.post("/login", {"user": user, "password": PASSWORD})
    assert answer.status == 303, answer.words
    return browser


async def test_without_a_login_a_browser_sees_nothing_of_the_cluster(console: Console) -> None:
    browser = Browser(application(console))
    answer = await browser.get("/topics?page=2")
    assert (answer.status, answer.headers["location"]) == (303, "/login?next=%2Ftopics%3Fpage%3D2")
    assert (await browser.get("/live")).status == 401
    assert (await browser.get("/api/timeline")).status == 401
    assert (await browser.post("/")).status == 401
    page = await browser.get("/login?next=/topics")
    assert page.status == 200 and "Password" in page.words
    assert console.cluster.seen.cluster_id not in page.text and "Overview" not in page.words
    assert (await browser.get("/healthz")).status == 200


async def test_a_user_sees_what_its_acls_allow(console: Console) -> None:
    alice, root = await logged_in(console, "alice"), await logged_in(console, "root")
    for browser, topics in ((alice, {"tides"}), (root, {"tides", "ships"})):
        page = await browser.get("/")
        assert page.status == 200, page.words
        request = browser.request()
        assert {
            topic.name for topic in (await console.seen(request)).topics if topic.name[0] != "_"
        } == topics
    assert (await console.seen(alice.request())).controller is None
    assert (await console.seen(root.request())).controller is not None


async def test_what_the_console_read_is_for_those_who_may_read_it(console: Console) -> None:
    """The records of state changes have the names of every topic."""
    alice, root = await logged_in(console, "alice"), await logged_in(console, "root")
    assert await console.admins.may_read(alice.request(), "tides")
    assert not await console.admins.may_read(alice.request(), "__state_changes")
    assert not await console.admins.may_read(alice.request(), "not-there")
    assert await console.admins.may_read(root.request(), "__state_changes")
    assert (await alice.get("/api/timeline")).status == 403
    assert (await alice.get("/api/timeline/event/state/0/0")).status == 403
    assert (await root.get("/api/timeline")).status == 200
    console.cluster.seen = Seen()  # events may be read before it is known which topics there are
    assert (await alice.get("/api/timeline")).status == 403


async def test_pages_and_changes_have_the_rights_of_their_user(cluster: LocalCluster) -> None:
    """The cluster refuses, in its own words: the console decides nothing of it."""
    settings = load(ConsoleSettings, login=True, allow_changes=True)
    async with running(settings, Connection(cluster.bootstrap, client())) as console:
        alice, root = await logged_in(console, "alice"), await logged_in(console, "root")
        assert (await alice.get("/topics/tides")).status == 200
        assert (await alice.get("/topics/tides/0/records")).status == 200
        assert (await alice.get("/topics/ships")).status in (403, 404)
        assert (await alice.get("/topics/ships/0/records")).status in (403, 404)
        new: dict[str, object] = {"name": "storms", "partitions": 1, "replication_factor": 1}
        changes: dict[str, dict[str, object]] = {
            "create-topic": new,
            "grow-topic": {"topic": "tides", "partitions": 2},
            "drain-broker": {"broker": 1},
        }
        for kind, fields in changes.items():
            refused = await alice.post(f"/changes/{kind}/plan", fields)
            assert refused.status == 403 and "alice" in refused.words, (kind, refused.words)
        record = {"topic": "tides", "partition": 0, "value": "v"}
        unsent = await done(alice, await planned(alice, "send-record", record))
        assert "refused" in unsent.words and "AuthorizationFailed" in unsent.words
        assert "has offset 0" in (await done(root, await planned(root, "send-record", record))).words
        assert "Topic storms is created" in (await done(root, await planned(root, "create-topic", new))).words
        page = await planned(root, "delete-topic", {"topic": "storms"})
        assert (await alice.post("/changes/do", {**hidden(page), "typed": "storms"})).status == 404
        assert "is deleted" in (await done(root, page, typed="storms")).words


async def test_a_wrong_password_and_an_unknown_user_look_the_same(console: Console) -> None:
    browser = Browser(application(console))
    wrong = await browser.post("/login", {"user": "alice", "password": "guessed"})
    unknown = await browser.post("/login", {"user": "mallory", "password": "guessed"})
    assert wrong.status == unknown.status == 401
    assert wrong.words == unknown.words and "guessed" not in wrong.text
    assert (await browser.get("/")).status == 303


async def test_failed_logins_are_bounded_by_address(console: Console) -> None:
    browser = Browser(application(console), address="192.0.2.1")
    for _ in range(FAILED_MAX):
        assert (await browser.post("/login", {"user": "alice", "password": "guessed"})).status == 401
    assert (await browser.post("/login", ALICE)).status == 429
    assert (await Browser(browser.application, address="192.0.2.2").post("/login", ALICE)).status == 303


async def test_a_login_gives_the_browser_another_name(console: Console) -> None:
    """A name that someone put there before is worth nothing afterwards (session fixation)."""
    browser = Browser(application(console))
    await browser.get("/login")
    before = Browser(browser.application, cookies=dict(browser.cookies))
    await browser.post("/login", ALICE)
    assert browser.cookies != before.cookies
    assert (await before.get("/")).status == 303


async def test_a_logout_ends_the_session_for_every_tab(console: Console) -> None:
    browser = await logged_in(console, "alice")
    tab = Browser(browser.application, cookies=dict(browser.cookies))
    assert (await browser.post("/logout")).status == 303
    assert (await tab.get("/")).status == 303


async def test_of_too_many_sessions_the_one_that_was_away_longest_ends(console: Console) -> None:
    first, second = await logged_in(console, "alice"), await logged_in(console, "alice")
    assert (await first.get("/")).status == 200
    third = await logged_in(console, "alice")
    assert [(await each.get("/")).status for each in (first, second, third)] == [200, 303, 200]


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "evil"])
async def test_a_login_leads_to_no_other_site(console: Console, to: str) -> None:
    answer = await Browser(application(console)).post("/login", {**ALICE, "next": to})
    assert (answer.status, answer.headers["location"]) == (303, "/")


async def test_logins_need_a_cluster_with_passwords() -> None:
    async with MemoryCluster(brokers=1) as memory:
        with pytest.raises(SettingsError, match="SASL_SSL"):
            async with console_of(memory, login=True):
                pass


async def test_the_token_of_a_file_opens_the_console(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("seven-tides-a-week\n")
    file.chmod(0o644)
    async with MemoryCluster(brokers=1) as memory:
        with pytest.raises(SettingsError, match=r"token_file.*chmod 600"):
            async with console_of(memory, token_file=file):
                pass
        file.chmod(0o600)
        async with browser_of(memory, token_file=file) as browser:
            assert (await browser.get("/")).status == 303
            assert (await browser.post("/login", {"token": "seven-tides-a-month"})).status == 401
            assert (await browser.post("/login", {"token": "seven-tides-a-week", "next": "/topics"})).headers[
                "location"
            ] == "/topics"
            assert (await browser.get("/")).status == 200
