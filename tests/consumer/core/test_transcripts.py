"""Whole rebalances as transcripts: commands, and all effects of the members.

A line `> command` of a file in `transcripts/` is executed; its effects follow, and are compared.

    > topic NAME PARTITIONS     create it, add partitions to it, or with 0 delete it
    > start NAME eager|cooperative TOPIC…
    > stop NAME                 it closes: everything is released, then it leaves
    > crash NAME                and its session ends
    > refresh                   every member reads the topics
    > until NAME STATE          steps happen until the member is in this state
    > expire NAME               its session ends, and it lives
    > beat NAME                 it sends a heartbeat, and reads the answer
    > run                       until no step is pending
    > owners                    each partition's owner and its generation
"""

from __future__ import annotations

import pytest

from strandline.consumer.core.member_states import State
from tests.consumer.core.support import golden
from tests.consumer.core.support.group_world import NOW_MS, World
from tests.consumer.core.support.spoken import named

SCRIPTS = ("scale_up", "scale_down", "leader_loss", "mixed_upgrade", "deleted_topic", "eager", "late_release")


def play(script: str) -> str:
    log: list[str] = []
    world = World({}, log=log)
    for line in script.splitlines():
        if line.startswith("> "):
            log.append(line)
            carry_out(world, line[2:].split())
        elif line.startswith("#") or not line:
            log.append(line)
    return "\n".join(log) + "\n"


def carry_out(world: World, command: list[str]) -> None:
    match command:
        case ["topic", name, count]:
            world.topics[name] = int(count)
            if count == "0":
                del world.topics[name]
        case ["start", name, protocol, *topics]:
            world.start(name, topics, cooperative=protocol == "cooperative")
        case ["stop", name]:
            node = world.nodes[name]
            world.carry_out(node, node.membership.leave("closing", NOW_MS))
        case ["crash", name]:
            member = world.nodes[name].membership.member
            world.crash(name)
            world.expire(member)
        case ["refresh"]:
            for node in world.nodes.values():
                world.refresh(node)
        case ["until", name, state]:
            while world.nodes[name].membership.state.value != state:
                if not world.todo:
                    world.beat_all()
                world.happen(world.todo[0])
        case ["expire", name]:
            world.expire(world.nodes[name].membership.member)
        case ["beat", name]:
            world.beat(world.nodes[name])
            world.happen(world.todo[-1])
            world.happen(world.todo[-1])
        case ["run"]:
            world.run()
            for name in [n for n, node in world.nodes.items() if node.membership.state is State.LEFT]:
                del world.nodes[name]
        case ["owners"]:
            assert world.log is not None
            for node in world.nodes.values():
                core = node.membership
                world.log.append(f"  {node.name}: {named(core.owned)}; generation {core.generation}")
        case _:
            raise ValueError(f"no such command: {command}")


@pytest.mark.parametrize("name", SCRIPTS)
def test_transcript(name: str) -> None:
    """KIP-429 from the outside: which member is notified of what, in which order."""
    golden.check(name, play(golden.read(name)))
