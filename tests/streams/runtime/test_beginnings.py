"""Where a task begins of whose inputs nothing is kept (docs/use/streams.md)."""

from __future__ import annotations

from collections import Counter

from strandline.streams import STRING, Topology
from tests.streams.runtime.applications import COUNTS, SETTLE_S, Application, words
from tests.waiting import eventually


async def test_a_task_whose_changelog_is_gone_counts_again_what_the_group_has_read(
    application: Application,
) -> None:
    """(CORRECTNESS S3) the group's offsets say more than the state, which is empty."""
    await application.create()
    await application.write(words(20))
    first = await application.start()
    await application.counted(first)
    await first.stop()
    await application.admin.delete_topics([application.changelog])
    await application.write(words(5))
    await application.counted(await application.start())


async def test_batches_of_a_repartition_topic_are_never_skipped_under_any_policy(
    application: Application,
) -> None:
    """The part behind it may begin after the first records are there."""
    await application.create()

    def repartitioned() -> Topology:
        topology = Topology()
        words = topology.source(application.source, key=STRING, value=STRING)
        words.repartition("again", key=STRING, value=STRING).count(COUNTS)
        return topology

    member = application.member(topology=repartitioned(), offset_reset="latest")
    await member.start()
    await eventually(
        lambda: [status.role for status in member.tasks()] == ["running"] * 2,
        deadline_s=SETTLE_S,
        what="both parts run",
    )
    await member.stop()
    topic = f"{application.id}-again-repartition"
    await application.producer.send_and_wait(topic, b"", b"early")
    await application.admin.delete_topics([f"{application.id}-again-changelog"])
    again = application.member(topology=repartitioned(), offset_reset="latest")
    await again.start()
    await eventually(
        lambda: Counter(dict(again.store(COUNTS).range())) == {"early": 1},
        deadline_s=SETTLE_S,
        what="what came early is counted",
    )


async def test_a_task_that_began_at_the_end_and_moves_counts_what_came_since(
    application: Application,
) -> None:
    """CORRECTNESS S3: its start is in the changelog before any record is, so its next owner does not go to
    the end that there is by then."""
    await application.create()
    await application.producer.send_and_wait(application.source, b"", b"before")
    first = await application.start(offset_reset="latest")
    await application.running(first, [0])
    await first.stop()
    await application.write(words(10))
    await application.counted(await application.start(offset_reset="latest"))
