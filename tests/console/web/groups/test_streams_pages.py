"""The pages of stream applications, with real members that run, learn and stand by."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from strandline.console.core.groups.stream_tasks import ASSIGNOR
from strandline.consumer.core.assignors.assignor import MemberSubscription
from strandline.ids import TopicPartition
from strandline.streams import INTEGER, STRING, Streams, Topology
from strandline.testing import MemoryCluster
from strandline.vocabulary.groups import TaskChange, TaskChangeKind
from tests.console.web.browser import Browser
from tests.console.web.consoles import browser_of
from tests.waiting import eventually

SETTINGS = {"progress_interval_ms": 50, "heartbeat_interval_ms": 100}


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1) as cluster:
        for topic in ("words", "counts"):
            await cluster.create_topic(topic, partitions=2)
        async with cluster.producer() as producer:
            for number in range(20):
                await producer.send_and_wait("words", b"", key=b"word-%d" % number)
        yield cluster


@pytest.fixture(scope="module")
async def browser(cluster: MemoryCluster) -> AsyncIterator[Browser]:
    async with browser_of(cluster) as browser:
        yield browser


def counting() -> Topology:
    topology = Topology()
    topology.source("words", key=STRING).count("by-word").to("counts", key=STRING, value=INTEGER)
    return topology


def member(cluster: MemoryCluster, name: str, number: int = 1, **settings: Any) -> Streams:
    given = {"client_id": f"worker-{number}", "state_dir": f"/state-{number}", **SETTINGS, **settings}
    return cluster.streams(counting(), application_id=name, **given)


async def shows(browser: Browser, path: str, *parts: str) -> str:
    """The words of the page, once it has all of these."""
    last = ""

    async def there() -> bool:
        nonlocal last
        last = (await browser.get(path)).words
        return all(part in last for part in parts)

    try:
        await eventually(there, deadline_s=30)
    except AssertionError:
        raise AssertionError(f"{path} lacks some of {parts}: {last}") from None
    return last


async def test_an_application_shows_its_tasks_and_who_runs_each(
    cluster: MemoryCluster, browser: Browser
) -> None:
    async with member(cluster, "counting", application_server="host-1:80"):
        words = await shows(
            browser,
            "/streams/counting",
            "words-0 0 worker-1 runs it none",
            "words-1 0 worker-1 runs it none",
        )
        assert "host-1:80 2 0 0 worker-1-" in words
        assert "Tasks 2; 0 learned now, 0 standbys" in words
        assert "counting stable 1 2 0 0 0" in await shows(browser, "/streams", "counting stable 1 2")
    assert "No member runs this application now" in await shows(browser, "/streams/counting", "empty")
    assert "counting empty 0 0" in await shows(browser, "/streams", "counting empty")


async def test_a_second_member_takes_a_task_over(cluster: MemoryCluster, browser: Browser) -> None:
    async with member(cluster, "sharing"), member(cluster, "sharing", 2):
        await shows(browser, "/streams/sharing", "worker-1 runs it", "worker-2 runs it", "0 learned now")


class ToTheFirst:
    """Gives all to one member, under the name by which members of applications agree."""

    name = ASSIGNOR

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        first = min(members)
        everything = [TopicPartition(topic, n) for topic, count in partitions.items() for n in range(count)]
        return {member: everything if member == first else [] for member in members}


async def test_a_learner_shows_how_far_it_is(cluster: MemoryCluster, browser: Browser) -> None:
    """Members that report as those of an application do, and stay where they are."""
    given: dict[str, Any] = {
        "group_id": "learning",
        "assignors": [ToTheFirst()],
        "rebalance_protocol": "cooperative",
    }
    async with (
        cluster.consumer(client_id="a-owner", **given) as owner,
        cluster.consumer(client_id="b-learner", **given) as learner,
    ):
        for consumer in (owner, learner):
            consumer.subscribe(["words"])
        await eventually(lambda: len(owner.assignment()) == 2, deadline_s=30)
        await eventually(lambda: learner.group_metadata().generation == owner.group_metadata().generation)
        kinds, at_ms = TaskChangeKind, 1_000
        owner.report_tasks([TaskChange(kinds.RUNNING, "words-0", at_ms)])
        learner.report_tasks(
            [
                TaskChange(kinds.LEARNING, "words-0", at_ms),
                TaskChange(
                    kinds.PROGRESS, "words-0", at_ms, lag=40_000, records_per_s=2_500.0, remaining_ms=16_000
                ),
            ]
        )
        wanted = ("a-owner runs it", "b-learner learns it", "40,000 records behind")
        words = await shows(browser, "/streams/learning", *wanted)
        assert "words-0" in words
        assert "40,000 records behind, 2,500 records/s, 16" in words
        assert "learning stable 2 1 1 0" in await shows(browser, "/streams", "learning stable 2 1 1")
        learner.report_tasks([TaskChange(kinds.READY, "words-0", at_ms, lag=1)])
        await shows(browser, "/streams/learning", "ready to take it over", "1 record behind")


async def test_a_standby_is_a_copy_with_its_member(cluster: MemoryCluster, browser: Browser) -> None:
    async with member(cluster, "standing", num_standbys=1), member(cluster, "standing", 2, num_standbys=1):
        words = await shows(
            browser, "/streams/standing", "2 standbys", "worker-1 runs it", "worker-2 runs it"
        )
        assert "worker-1 stands by" in words
        assert "worker-2 stands by" in words


async def test_a_group_of_consumers_is_no_application(cluster: MemoryCluster, browser: Browser) -> None:
    async with cluster.consumer(group_id="plain") as consumer:
        consumer.subscribe(["words"])
        await eventually(consumer.assignment)
        assert "is no stream application" in (await browser.get("/streams/plain")).words
        assert "/streams/plain" not in (await browser.get("/streams")).text
    assert (await browser.get("/streams/nothing")).status == 404


async def test_the_name_of_an_application_is_no_markup(cluster: MemoryCluster, browser: Browser) -> None:
    """Any client may commit for a group of any name."""
    name = "<b>x</b>/.."
    async with cluster.admin() as admin:
        await admin.alter_group_offsets(name, {TopicPartition("words", 0): 1})
    page = await browser.get("/streams/%3Cb%3Ex%3C%2Fb%3E%2F..")
    assert page.status == 200
    assert "<b>x" not in page.text
