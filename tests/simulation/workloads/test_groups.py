"""Members of a group in a simulated world: their heartbeats are tasks, since the world has one thread."""

from __future__ import annotations

from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.host import Host
from strandline.producer.producer import Producer
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.world import World
from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.groups import Groups
from strandline_lab.simulation.workloads.member import MemberPlan

RECORDS = 120


async def consume(cluster: Cluster, process: SimulatedProcess, seen: dict[int, list[str]]) -> None:
    group = Consumer(cluster.bootstrap, host=process.host, group_id="group", offset_reset="earliest")
    async with group as consumer:
        consumer.subscribe(["topic"])
        async for record in consumer:
            seen.setdefault(int(record.value or b""), []).append(process.name)


async def produce(cluster: Cluster, host: Host, member: SimulatedProcess) -> None:
    """A member and a broker are killed meanwhile."""
    async with Admin(cluster.bootstrap, host=host) as admin:
        await admin.create_topic("topic", 4, 3)
    async with Producer(cluster.bootstrap, host=host) as producer:
        for number in range(RECORDS):
            _ = await producer.send("topic", b"%d" % number)
            await host.clock.sleep(0.1)
            if number == RECORDS // 4:
                member.kill()
            elif number == RECORDS // 2:
                cluster.brokers[0].kill()
        await producer.flush()
    await host.clock.sleep(15.0)


def test_a_group_reads_everything_although_a_member_and_a_broker_are_killed() -> None:
    seen: dict[int, list[str]] = {}
    with World(1) as world:
        cluster = Cluster(world)
        writer, *members = [world.new_process(name, world.new_machine()) for name in ("writer", "one", "two")]

        async def main() -> None:
            tasks = [each.run(consume(cluster, each, seen)) for each in members]
            await writer.run(produce(cluster, writer.host, members[0]))
            assert not any(task.done() for task in tasks)

        world.run(main())
        assert world.defects == []
    assert sorted(seen) == list(range(RECORDS))
    assert {name for names in seen.values() for name in names} == {"one", "two"}


def test_a_slow_member_catches_up_once_the_faults_have_ended() -> None:
    """At its own pace, its work would take four minutes: twice as long as healing may."""
    slow = MemberPlan(protocol="eager", becomes="eager", by_hand=False, static=False, work_s=2.0)
    group = Groups(
        name="groups", partitions=1, writers=2, pause_s=0.05, synced=False, assignor="range", members=(slow,),
        change_s=100.0,
    )  # fmt: skip
    outcome = run_quietly(Plan(seed=1, seconds=3.0, workloads=(group,), faults=()))
    assert outcome.problems == ()
    assert outcome.counts["records"] > 100


def test_faults_wait_for_the_first_generation_if_the_plan_says_so() -> None:
    member = MemberPlan(protocol="eager", becomes="eager", by_hand=False, static=False, work_s=0.01)
    group = Groups(
        name="groups", partitions=2, writers=1, pause_s=0.3, synced=False, assignor="range",
        members=(member, member), change_s=100.0, formed=True,
    )  # fmt: skip
    fault = Fault(kind="kill broker", at_s=0.0, lasts_s=0.1, lot=1)

    def began_s(group: Groups) -> float:
        outcome = run_quietly(Plan(seed=1, seconds=1.0, workloads=(group,), faults=(fault,)))
        assert outcome.problems == ()
        return outcome.done[0].began_s

    assert began_s(group) > began_s(group.model_copy(update={"formed": False})) + 0.4
