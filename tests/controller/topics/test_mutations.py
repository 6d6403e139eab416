"""The quota of partitions that are created and deleted, on a real ZooKeeper (KIP-599)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.config.limits import PARTITIONS_PER_TOPIC_MAX
from strandline.controller.topics.marking import MarkedTopic, mark_for_deletion
from strandline.controller.topics.mutations import RATE, RETRY_AFTER_MS_MAX, count_mutations
from strandline.errors import InvalidPartitions, ThrottlingQuotaExceeded
from strandline.ids import TopicId
from strandline.ports import Caller, Coordination
from strandline.security.principal import Principal
from strandline.security.quotas.bill import Bill, ClientQuotas
from strandline.security.quotas.model import RATE_MIN, Quota, QuotaEntity, Quotas
from strandline.serving.asked import doing_for
from strandline.vocabulary.admin import AlterTopic, NewTopic, TopicResult
from tests.controller.support.running import Activate
from tests.controller.support.tree_term import term_in
from tests.controller.support.znodes_seen import topic_node
from tests.hand_clock import HandClock
from tests.znode_tree import ZnodeTree

ALICE = Caller("ipv4:192.0.2.1:1", "192.0.2.1", principal=Principal("alice"))


def bill(clock: HandClock) -> Bill:
    """Of a user who may create and delete two partitions a second."""
    quotas = ClientQuotas(lambda _: False, clock.monotonic, delay_ms_max=1_000)
    quotas.take(Quotas({QuotaEntity("alice"): {Quota.CONTROLLER_MUTATION_RATE: 2}}))
    found = quotas.of(ALICE)
    assert found is not None
    return found


async def partitions(session: Coordination, topic: str) -> int:
    node = await topic_node(session, topic)
    assert node is not None
    return node.partitions


def waits(results: Sequence[TopicResult]) -> list[int | None]:
    """How long the caller has to wait for each topic, ms; None: it is changed."""
    assert all(each.error is None or isinstance(each.error, ThrottlingQuotaExceeded) for each in results)
    return [None if each.error is None else each.error.retry_after_ms for each in results]


async def test_topics_beyond_the_rate_are_refused_until_the_others_are_paid_for(active: Activate) -> None:
    """A trial counts nothing and is never refused. Others than the caller are not held up."""
    clock = HandClock()
    async with active([1]) as (session, controller, _):
        admin, alice = controller.admin, bill(clock)
        with doing_for(None, alice):
            wanted = [NewTopic("a", 8), NewTopic("b", 1)]
            assert waits(await admin.create_topics(wanted, validate_only=True)) == [None, None]
            assert waits(await admin.create_topics(wanted)) == [None, 3_000]
            assert waits(await admin.create_topics(wanted[1:], validate_only=True)) == [None]
        assert waits(await admin.create_topics([NewTopic("c", 8)])) == [None]
        clock.now_s += 2.5
        with doing_for(None, alice):
            assert waits(await admin.create_topics([NewTopic("b", 1)])) == [500]
            clock.now_s += 0.5
            assert waits(await admin.create_topics([NewTopic("b", 1)])) == [None]
        assert await partitions(session, "b") == 1


async def test_deletions_count_the_partitions_of_their_topics(active: Activate) -> None:
    clock = HandClock()
    async with active([1]) as (session, controller, _):
        admin, alice = controller.admin, bill(clock)
        await admin.create_topics([NewTopic("a", 8), NewTopic("b", 1)])
        with doing_for(None, alice):
            assert waits(await admin.delete_topics(["a"])) == [None]
            assert waits(await admin.delete_topics(["b"])) == [3_000]
            assert await partitions(session, "b") == 1
            clock.now_s += 3
            assert waits(await admin.delete_topics(["b"])) == [None]


async def test_a_topic_that_is_marked_already_counts_no_more() -> None:
    """A client that tries a deletion again, because its answer was lost, pays once."""
    session = ZnodeTree().open_session()
    for path in (znodes.CONTROLLER_EPOCH, znodes.DELETE_TOPICS, znodes.TOPICS):
        await session.ensure_path(path)
    await session.create(znodes.topic("a"), znodes.dump_topic(znodes.TopicNode(TopicId("id"), 8, {})))
    clock, term, marked = HandClock(), term_in(session), [MarkedTopic("a", TopicId("id"), 8)]
    with doing_for(None, bill(clock)):
        assert await mark_for_deletion(term, {"a": ""}) == (marked, {})
        clock.now_s += 3
        for _ in range(3):
            assert await mark_for_deletion(term, {"a": ""}) == (marked, {})


async def test_refusals_are_counted() -> None:
    clock = HandClock()
    quotas = ClientQuotas(lambda _: False, clock.monotonic, delay_ms_max=1_000)
    quotas.take(Quotas({QuotaEntity("alice"): {RATE: 2}}))
    alice = quotas.of(ALICE)
    with doing_for(None, alice):
        count_mutations("a", 8)
        for _ in range(2):
            with pytest.raises(ThrottlingQuotaExceeded):
                count_mutations("b", 1)
    assert quotas.refused(RATE) == 2


def test_a_wait_fits_kafkas_answers() -> None:
    """CORRECTNESS X14: that of a tiny rate fitted no field of an answer, which ended the controller."""
    quotas = ClientQuotas(lambda _: False, HandClock().monotonic, delay_ms_max=1_000)
    quotas.take(Quotas({QuotaEntity("alice"): {RATE: RATE_MIN}}))
    with doing_for(None, quotas.of(ALICE)):
        count_mutations("a", PARTITIONS_PER_TOPIC_MAX)
        with pytest.raises(ThrottlingQuotaExceeded) as refused:
            count_mutations("b", 1)
    assert refused.value.retry_after_ms == RETRY_AFTER_MS_MAX


async def test_additions_count_what_they_add_and_refused_ones_alter_no_config(active: Activate) -> None:
    clock = HandClock()
    async with active([1]) as (session, controller, _):
        admin, alice = controller.admin, bill(clock)
        await admin.create_topics([NewTopic("a", 8)])
        grown = AlterTopic("a", set={"retention.ms": "5"}, partitions=10)
        with doing_for(None, alice):
            with pytest.raises(InvalidPartitions):
                await admin.alter_topic(AlterTopic("a", partitions=1))
            await admin.alter_topic(AlterTopic("a", partitions=9))
            await admin.alter_topic(AlterTopic("a", partitions=9, validate_only=True))
            assert alice.admit(Quota.CONTROLLER_MUTATION_RATE, 3) == 0  # one of two was left
            with pytest.raises(ThrottlingQuotaExceeded) as refused:
                await admin.alter_topic(grown)
            assert refused.value.retry_after_ms == 1_000
            node = await topic_node(session, "a")
            assert node is not None and node.config == {}
            await admin.alter_topic(AlterTopic("a", set={"retention.ms": "7"}))
            clock.now_s += 1
            await admin.alter_topic(grown)
        node = await topic_node(session, "a")
        assert node is not None and (node.partitions, node.config) == (10, {"retention.ms": "5"})
