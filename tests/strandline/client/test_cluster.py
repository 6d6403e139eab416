"""A client finds brokers and leaders from answers, without polling."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from strandline.client.addresses import parse_bootstrap
from strandline.client.backoff import backoff_s
from strandline.client.cluster import LEADER_WAITS_AT_ONCE_MAX, REFRESHED_TOGETHER_MAX, Cluster, Leader
from strandline.client.scope import Scope
from strandline.client.waits import WAITS_LOGGER
from strandline.config.client import ClientSettings
from strandline.errors import (
    BrokerNotAvailable,
    InconsistentClusterId,
    InvalidRequest,
    LeaderHint,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    SettingsError,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_BROKER, TopicId, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import LeaderWait, MetadataAnswer, MetadataQuery
from tests.strandline.client.network import LONG_S, FastClock, Network, answering, metadata
from tests.waiting import eventually

A = TopicPartition("t", 0)
BROKER_1, BROKER_2, BROKER_3 = "broker1:9092", "broker2:9092", "broker3:9092"


@asynccontextmanager
async def view(
    network: Network,
    *,
    bootstrap: str = BROKER_1,
    clock: Clock | None = None,
    settings: ClientSettings | None = None,
) -> AsyncIterator[Cluster]:
    scope = Scope("test", lambda error: None)
    await scope.start()
    cluster = Cluster(bootstrap, settings or ClientSettings(), network, clock or FastClock())
    cluster.run(scope)
    try:
        yield cluster
    finally:
        await scope.stop()


# --- brokers ------------------------------------------------------------------------------------


async def test_any_address_of_the_bootstrap_may_be_dead() -> None:
    network = Network()
    network.brokers[BROKER_2] = answering(metadata((2, 5)))
    async with view(network, bootstrap=f"nowhere:1,{BROKER_2}") as cluster:
        assert (await cluster.topic("t")).name == "t"
        assert cluster.leader(A) == Leader(2, 5)


async def test_without_any_answer_the_error_names_every_address_and_the_reason() -> None:
    async with view(Network(), bootstrap="one:1,two:2") as cluster:
        with pytest.raises(BrokerNotAvailable, match=r"one:1 is unreachable.*two:2 is unreachable"):
            await cluster.topic("t")


async def test_an_advertised_address_that_cannot_be_reached_is_named_with_its_broker() -> None:
    """USERS 15: in containers that is the most frequent mistake of all."""
    network = Network()
    network.brokers["bootstrap:1"] = answering(metadata((1, 5)))
    async with view(network, bootstrap="bootstrap:1") as cluster:
        await cluster.topic("t")
        with pytest.raises(
            BrokerNotAvailable, match="broker 1 advertised broker1:9092, unreachable from here"
        ):
            await cluster.led_by(A)
            await cluster.open(1, None)  # type: ignore[arg-type]  # it is not got to


async def test_a_broker_of_another_cluster_is_refused() -> None:
    network = Network()
    network.brokers[BROKER_1] = answering(metadata((1, 5)))
    async with view(network) as cluster:
        await cluster.topic("t")
        network.brokers[BROKER_1] = answering(metadata((3, 9), cluster_id="other"))
        with pytest.raises(InconsistentClusterId):
            await cluster.refresh(["t"])
        assert cluster.leader(A) == Leader(1, 5)


async def test_callers_during_a_question_share_the_next_one() -> None:
    """The one under way may have been answered before the change that is looked for."""
    network = Network()

    async def take_a_moment(_query: MetadataQuery) -> MetadataAnswer:
        await asyncio.sleep(0)
        return metadata((1, 5))

    network.brokers[BROKER_1] = take_a_moment
    async with view(network) as cluster, asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(cluster.refresh(["t"]))
    assert len(network.asked) == 2


@pytest.mark.parametrize("stalls_s", [5.0, 60.0])
async def test_a_topic_is_asked_for_again_while_brokers_cannot_tell(stalls_s: float) -> None:
    """ZooKeeper stalls, and a broker that began a moment ago does not know the topic: programs ended at their
    start. They wait for `request_timeout_ms`, as Kafka clients do."""
    network, clock = Network(), FastClock()

    async def stalled(query: MetadataQuery) -> MetadataAnswer:
        if clock.now < stalls_s:
            raise LeaderNotAvailable("topic 't' cannot be read from ZooKeeper now")
        return metadata((1, 5))

    network.brokers[BROKER_1] = stalled
    settings = ClientSettings(request_timeout_ms=10_000)
    async with view(network, bootstrap=f"nowhere:1,{BROKER_1}", clock=clock, settings=settings) as cluster:
        if stalls_s < 10:
            assert (await cluster.topic("t")).name == "t"
        else:
            with pytest.raises(BrokerNotAvailable, match="cannot be read from ZooKeeper now"):
                await cluster.topic("t")
            assert 10 <= clock.now < 11


async def test_a_topic_that_stays_unknown_is_missing() -> None:
    unknown = UnknownTopicOrPartition("topic 't' does not exist")
    network = Network()
    network.brokers[BROKER_1] = answering(replace(metadata(), errors={"t": unknown}))
    async with view(network) as cluster:
        with pytest.raises(UnknownTopicOrPartition):
            await cluster.topic("t")
        network.brokers[BROKER_1] = answering(metadata((1, 5)))
        with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 0, there is no 3"):
            await cluster.led_by(TopicPartition("t", 3))


async def test_a_topic_that_is_known_as_smaller_is_requested_again() -> None:
    """A client may get a partition of a topic that grew before it has learned of it."""
    network = Network()
    network.brokers[BROKER_1] = answering(metadata((1, 5)))
    async with view(network) as cluster:
        await cluster.topic("t")
        answers = [metadata((1, 5)), metadata((1, 5), (2, 6))]  # the first broker asked is a moment behind

        async def grown(query: MetadataQuery) -> MetadataAnswer:
            return answers.pop(0) if len(answers) > 1 else answers[0]

        network.brokers[BROKER_1] = grown
        assert await cluster.led_by(TopicPartition("t", 1)) == Leader(2, 6)


async def test_all_topics_are_refreshed_in_lots() -> None:
    """One request for thousands kept a broker's connection to ZooKeeper busy for seconds."""
    asked: list[Sequence[str]] = []
    names = [f"t{number:03}" for number in range(REFRESHED_TOGETHER_MAX + 20)]

    async def handle(query: MetadataQuery) -> MetadataAnswer:
        asked.append(query.topics or ())
        known = metadata((1, 5)).cluster
        topics = tuple(replace(known.topics[0], name=name) for name in query.topics or ())
        return MetadataAnswer(replace(known, topics=topics), {})

    network = Network()
    network.brokers[BROKER_1] = handle
    settings = ClientSettings(metadata_max_age_ms=1_000)
    async with view(network, settings=settings) as cluster:
        await cluster.refresh(names)
        await eventually(
            lambda: asked[1:3] == [names[:REFRESHED_TOGETHER_MAX], names[REFRESHED_TOGETHER_MAX:]]
        )


# --- leaders ------------------------------------------------------------------------------------


async def test_a_leader_of_an_older_epoch_is_never_used_again() -> None:
    network = Network()
    network.brokers[BROKER_1] = answering(metadata((1, 5)))
    async with view(network) as cluster:
        await cluster.topic("t")
        cluster.follow(A, NotLeaderOrFollower("no", leader=LeaderHint(2, "broker2", 9092, 6)))
        assert cluster.leader(A) == Leader(2, 6)
        await cluster.refresh(["t"])
        assert cluster.leader(A) == Leader(2, 6)


async def test_a_doubted_leader_is_asked_for_at_another_replica_which_holds_its_answer() -> None:
    network = Network()
    network.brokers[BROKER_1] = answering(metadata((1, 5)))
    elected = asyncio.Event()
    queries: list[MetadataQuery] = []

    async def hold(query: MetadataQuery) -> MetadataAnswer:
        queries.append(query)
        await elected.wait()
        return metadata((3, 6), brokers=(2, 3))

    network.brokers[BROKER_2] = network.brokers[BROKER_3] = hold
    async with view(network) as cluster:
        await cluster.topic("t")
        del network.brokers[BROKER_1]
        heard: list[TopicPartition] = []
        cluster.on_change(heard.append)
        cluster.doubt(A)
        cluster.doubt(A)
        await eventually(lambda: queries)
        cluster.doubt(A)
        assert not heard
        elected.set()
        await eventually(lambda: heard)
        assert cluster.leader(A) == Leader(3, 6)
    assert [query.waits for query in queries] == [[LeaderWait(A, 5)]]
    assert BROKER_1 not in network.asked[1:]


async def test_a_search_without_an_end_notifies_its_listeners_again() -> None:
    network = Network()
    network.brokers[BROKER_1] = network.brokers[BROKER_2] = answering(metadata((-1, 5)))
    async with view(network) as cluster:
        await cluster.topic("t")
        heard: list[TopicPartition] = []
        cluster.on_change(heard.append)
        for times in range(1, 4):
            cluster.doubt(A)
            await eventually(lambda times=times: len(heard) == times)  # type: ignore[misc]


async def test_partitions_without_a_leader_are_logged_soon_and_each_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those who read them wait, and get no error. One line for all that are sought together."""
    network, clock = Network(), FastClock()
    network.brokers[BROKER_1] = network.brokers[BROKER_2] = answering(metadata((-1, 5), (-1, 5)))
    async with view(network, clock=clock) as cluster:
        await cluster.topic("t")
        cluster.on_change(cluster.doubt)
        cluster.doubt(A)
        cluster.doubt(TopicPartition("t", 1))
        await eventually(lambda: len(caplog.records) >= 4, what="it is logged")
        network.brokers[BROKER_1] = network.brokers[BROKER_2] = answering(metadata((3, 6), (3, 6)))
        await eventually(lambda: cluster.leader(A) == Leader(3, 6))
    said = [each.getMessage() for each in caplog.records if each.name == WAITS_LOGGER]
    assert re.fullmatch(r"t-[01]: no leader is found, for 2 s by now", said[0])
    assert all(re.search("no leader is found, for (2|6[2-5]|12[2-9]) s by now", each) for each in said[:4])


async def test_a_partition_that_a_known_topic_lacks_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """It may come; until then no one has to look for a leader."""
    network, clock = Network(), FastClock()
    network.brokers[BROKER_1] = network.brokers[BROKER_2] = answering(metadata((1, 5)))
    async with view(network, clock=clock) as cluster:
        await cluster.topic("t")
        cluster.on_change(cluster.doubt)
        cluster.doubt(TopicPartition("t", 6))
        await eventually(lambda: caplog.records, what="it is logged")
    said = [each.getMessage() for each in caplog.records if each.name == WAITS_LOGGER]
    assert said[0] == "t-6: there is no such partition, for 2 s by now"


async def test_many_doubts_travel_in_few_questions() -> None:
    network = Network()
    leaders = [(1, 5)] * 1000
    network.brokers[BROKER_1] = answering(metadata(*leaders))
    async with view(network) as cluster:
        await cluster.topic("t")
        network.brokers[BROKER_2] = answering(metadata(*[(2, 6)] * 1000))
        asked = len(network.asked)
        for number in range(1000):
            cluster.doubt(TopicPartition("t", number))
        await eventually(lambda: cluster.leader(TopicPartition("t", 999)) == Leader(2, 6))
        assert len(network.asked) - asked <= 64


class PausedClock(FastClock):
    """Each short pause lasts until `go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = 0
        self.go_on = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds < LONG_S:
            self.pauses += 1
            await self.go_on.wait()
        await super().sleep(seconds)


async def test_a_leader_that_is_lost_while_its_search_pauses_is_sought_again() -> None:
    """A search of two partitions has found the leader of one, and pauses for the other."""
    network, clock = Network(), PausedClock()
    count = LEADER_WAITS_AT_ONCE_MAX + 1
    network.brokers[BROKER_1] = answering(metadata(*[(1, 5)] * count))
    async with view(network, clock=clock) as cluster:
        await cluster.topic("t")

        def doubt(name: TopicPartition) -> None:
            leader = cluster.leader(name)
            if name == A and leader is not None and leader.broker == NO_BROKER:
                cluster.doubt(name)

        cluster.on_change(doubt)
        found = [(2, 6), (-1, 5), *[(2, 6)] * (count - 2)]
        network.brokers[BROKER_1] = network.brokers[BROKER_2] = answering(metadata(*found))
        for number in range(count):
            cluster.doubt(TopicPartition("t", number))
        await eventually(lambda: clock.pauses == 1, what="a pause")
        network.brokers[BROKER_1] = network.brokers[BROKER_2] = answering(metadata((-1, 7), *found[1:]))
        await cluster.refresh(["t"])
        assert cluster.leader(A) == Leader(NO_BROKER, 7)
        network.brokers[BROKER_1] = network.brokers[BROKER_2] = answering(metadata((3, 8), *found[1:]))
        clock.go_on.set()
        await eventually(lambda: cluster.leader(A) == Leader(3, 8), what="the next leader")


# --- the rest -----------------------------------------------------------------------------------


def test_a_bootstrap_is_one_text_or_several() -> None:
    assert parse_bootstrap("a:1, b:2,") == ("a:1", "b:2")
    assert parse_bootstrap(["a:1", "[::1]:2"]) == ("a:1", "[::1]:2")


@pytest.mark.parametrize("wrong", ["", " , ", "host", "host:", "host:x", ":9092", "host:0", "host:65536"])
def test_a_wrong_bootstrap_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(SettingsError, match="bootstrap"):
        parse_bootstrap(wrong)


@pytest.mark.parametrize("wrong", ["u:secret@host:1", "kafka://u:secret@host:1", "a:1,u:secret@host:x"])
def test_a_bootstrap_with_a_password_is_refused_without_it(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"…@host:.' is not of the form host:port") as refused:
        parse_bootstrap(wrong)
    assert "secret" not in str(refused.value)


def test_pauses_double_up_to_their_bound() -> None:
    settings = ClientSettings(retry_backoff_ms=20, retry_backoff_ms_max=100)
    assert [backoff_s(settings, attempt) for attempt in (1, 2, 3, 4, 10_000)] == [0.02, 0.04, 0.08, 0.1, 0.1]


async def test_a_scope_that_failed_says_why_and_leaves_no_task() -> None:
    failures: list[BaseException] = []
    scope = Scope("thing", failures.append)
    with pytest.raises(InvalidRequest, match="not started"):
        scope.check()
    await scope.start()
    other_ended = asyncio.Event()

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            other_ended.set()

    async def fail() -> None:
        raise RuntimeError("broken")

    scope.spawn(other(), "other")
    scope.spawn(fail(), "fail")
    await other_ended.wait()
    await eventually(lambda: failures)
    with pytest.raises(ExceptionGroup, match="TaskGroup"):
        await scope.stop()


async def test_a_scope_starts_once_and_stops_as_often_as_one_likes() -> None:
    scope = Scope("thing", lambda error: None)
    await scope.start()
    with pytest.raises(InvalidRequest, match="started already"):
        await scope.start()
    await scope.stop()
    await scope.stop()
    with pytest.raises(InvalidRequest, match="stopped"):
        scope.check()


# --- topics that are made anew -------------------------------------------------------------------


def made_anew(*leaders: tuple[int, int]) -> MetadataAnswer:
    """As `metadata`, of another topic with the same name."""
    answer = metadata(*leaders)
    topics = tuple(replace(topic, topic_id=TopicId("1" * 32)) for topic in answer.cluster.topics)
    return replace(answer, cluster=replace(answer.cluster, topics=topics))


async def test_the_leaders_of_a_topic_are_not_those_of_the_one_before() -> None:
    """A partition that the old topic had too is a new one, though no broker leads it yet."""
    network, changed = Network(), list[TopicPartition]()
    b, gone = TopicPartition("t", 1), TopicPartition("t", 2)
    network.brokers[BROKER_1] = answering(metadata((1, 5), (2, 6), (3, 6)))
    async with view(network) as cluster:
        await cluster.topic("t")
        cluster.on_change(changed.append)
        network.brokers[BROKER_1] = answering(made_anew((1, 7), (NO_BROKER, -1)))
        await cluster.refresh(["t"])
        assert (cluster.leader(A), cluster.leader(b)) == (Leader(1, 7), Leader(NO_BROKER, -1))
        assert cluster.leader(gone) is None
        assert changed == [A, b]


async def test_a_hint_of_a_broker_with_the_old_log_does_not_hide_the_new_topic() -> None:
    """It names the leader that has the partition's name by now. What was known before stays older."""
    network = Network()
    network.brokers[BROKER_1] = answering(metadata((1, 5)))
    async with view(network) as cluster:
        await cluster.topic("t")
        hint = LeaderHint(2, "broker2", 9092, 7)
        cluster.follow(A, NotLeaderOrFollower("not here", leader=hint))
        assert cluster.leader(A) == Leader(2, 7)
        for answer, topic_id in (
            (made_anew((2, 7)), "1"),
            (metadata((1, 5)), "1"),
            (made_anew((NO_BROKER, 7)), "1"),
        ):
            network.brokers[BROKER_1] = answering(answer)
            await cluster.refresh(["t"])
            known = cluster.known_topic("t")
            assert known is not None and known.topic_id == TopicId(topic_id * 32)
