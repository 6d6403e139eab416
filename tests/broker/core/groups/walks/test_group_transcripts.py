"""Whole scenes, call by call, as a text to be reviewed: `>` is a call, below it is what came of it."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

from strandline.broker.core.coordinators.effects import Answer, Append, Failed
from strandline.broker.core.groups.effects import Effect, Publish
from strandline.broker.core.groups.records import GroupKey, decode_group_value, decode_key
from strandline.errors import StrandlineError
from strandline.vocabulary.groups import Joined, LeavingMember, MemberIdGiven
from tests.broker.core.groups.support.stage import LIMITS, Stage


class Scene:
    """Notes what a stage does; calls have the names that the scene gives them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.noted = len(stage.effects)

    def call(self, line: str, asked: object = None) -> None:
        """A line for a call that was just made; `asked` is its token."""
        if isinstance(asked, str):
            self.names[asked] = line.split(":", maxsplit=1)[0]
        self.lines.append(f"> {line}")
        self.lines += [f"  {self.line_of(effect)}" for effect in self.stage.effects[self.noted :]]
        self.noted = len(self.stage.effects)

    def line_of(self, effect: Effect) -> str:
        match effect:
            case Answer(call, value):
                return f"{self.names.get(str(call), 'call')} ← {outcome(value)}"
            case Append(_, records):
                return "append " + ", ".join(written(key, value) for key, value in records)
            case Publish(event):
                about = f" {event.member}" if event.member else ""
                why = f" ({event.reason})" if event.reason else ""
                return f"event {event.kind.value} {event.generation}{about}{why}"
            case Failed(group, _, error):
                return f"{group} is Dead: {error!r}"

    def text(self) -> str:
        return "\n".join(self.lines)


def outcome(value: object) -> str:
    match value:
        case StrandlineError():
            return f"{type(value).__name__}\n      {value.message}"
        case MemberIdGiven(member):
            return f"join as {member}"
        case Joined():
            members = f" of {', '.join(m.member for m in value.members)}" if value.members else ""
            skip = ", assignment stands" if value.skip_assignment else ""
            return f"generation {value.generation}, leader {value.leader}{members}{skip}"
        case bytes():
            return f"work {value.decode()!r}"
        case None:
            return "alive"
        case _:
            return "done"


def written(key: bytes, value: bytes | None) -> str:
    read = decode_key(key)
    if not isinstance(read, GroupKey) or value is None:
        return f"{read}: {value!r}"
    group = decode_group_value(value)
    members = ", ".join(f"{m.member}={m.assignment.decode() or '-'}" for m in group.members)
    return f"generation {group.generation} led by {group.leader}: {members}"


def check(scene: Scene, expected: str) -> None:
    assert scene.text() == dedent(expected).strip("\n")


def test_three_members_join() -> None:
    """KIP-394; the initial delay makes one generation of three members."""
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=500))
    scene = Scene(stage)
    for member in "abc":
        scene.call(f"{member}: asks to join", stage.join("", member))
        scene.call(f"{member}: joins", stage.join(member))
    stage.later(1)
    scene.call("a second passes")
    scene.call("b: syncs", stage.sync("b", 1))
    scene.call("a: assigns", stage.sync("a", 1, {"a": b"p0", "b": b"p1", "c": b"p2"}))
    scene.call("c: syncs", stage.sync("c", 1))
    check(scene, THREE_JOIN)


def test_the_leader_is_lost() -> None:
    """KIP-429, leader loss: nothing is remembered in the leader alone."""
    stage = Stage()
    stage.stable("a", "b", "c")
    stage.later(9)
    scene = Scene(stage)
    for member in "bc":
        scene.call(f"{member}: beats", stage.heartbeat(member, 3, wait_ms=5_000))
    stage.later(1)
    scene.call("a second passes")
    scene.call("b: joins", stage.join("b"))
    scene.call("c: joins", stage.join("c"))
    scene.call("c: syncs", stage.sync("c", 4))
    scene.call("b: assigns", stage.sync("b", 4, {"b": b"p0", "c": b"p1"}))
    check(scene, LEADER_LOST)


def test_a_static_leader_restarts() -> None:
    """KIP-345, KIP-814 (G13)."""
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=500))
    tokens = {"a1": stage.join("", "a1", instance="a"), "b1": stage.join("", "b1", instance="b")}
    stage.later(1)
    stage.sync_all(tokens)
    scene = Scene(stage)
    scene.call("b1: beats", stage.heartbeat("b1", 1, wait_ms=4_000, instance="b"))
    scene.call("a1: closes", stage.leave(LeavingMember("a1")))
    scene.call("a2: joins as instance a", stage.join("", "a2", instance="a"))
    scene.call("a2: syncs", stage.sync("a2", 1, instance="a"))
    scene.call("a1: beats", stage.heartbeat("a1", 1, instance="a"))
    stage.later(4)
    scene.call("four seconds pass")
    check(scene, STATIC_RESTART)


def test_the_coordinator_is_handed_over() -> None:
    """CORRECTNESS G13: one group stable, then one in the middle of a generation."""
    stage = Stage()
    stage.stable("a", "b")
    scene = Scene(stage)
    scene.call("b: beats", stage.heartbeat("b", 2, wait_ms=5_000))
    stage.unload()
    scene.call("the coordinator moves")
    stage = scene.stage = stage.elsewhere()
    scene.noted = 0
    scene.call("b: beats", stage.heartbeat("b", 2))
    scene.call("a: joins", stage.join("a"))
    scene.call("b: joins", stage.join("b"))
    scene.call("b: syncs", stage.sync("b", 3))
    stage.unload()
    scene.call("the coordinator moves again")
    stage = scene.stage = stage.elsewhere()
    scene.noted = 0
    scene.call("b: syncs", stage.sync("b", 3))
    scene.call("a: assigns", stage.sync("a", 3, {"a": b"p0", "b": b"p1"}))
    check(scene, HANDOVER)


THREE_JOIN = """
> a: asks to join
  a ← join as a
> a: joins
  event member_joined 0 a
  event rebalance_started 0 (member a joined)
> b: asks to join
  b ← join as b
> b: joins
  event member_joined 0 b
> c: asks to join
  c ← join as c
> c: joins
  event member_joined 0 c
> a second passes
  append generation 1 led by a: a=-, b=-, c=-
  event generation_started 1 (member a joined)
  a ← generation 1, leader a of a, b, c
  b ← generation 1, leader a
  c ← generation 1, leader a
> b: syncs
> a: assigns
  append generation 1 led by a: a=p0, b=p1, c=p2
  event generation_stable 1
  a ← work 'p0'
  b ← work 'p1'
> c: syncs
  c ← work 'p2'
"""

LEADER_LOST = """
> b: beats
> c: beats
> a second passes
  event member_left 3 a (not heard of for 10000 ms)
  event rebalance_started 3 (member a was not heard of for 10000 ms)
  b ← RebalanceInProgress
      group readers rebalances (generation 3): member a was not heard of for 10000 ms (caused by a)
  c ← RebalanceInProgress
      group readers rebalances (generation 3): member a was not heard of for 10000 ms (caused by a)
> b: joins
> c: joins
  event generation_ended 3 (member a was not heard of for 10000 ms)
  append generation 4 led by b: b=-, c=-
  event generation_started 4 (member a was not heard of for 10000 ms)
  b ← generation 4, leader b of b, c
  c ← generation 4, leader b
> c: syncs
> b: assigns
  append generation 4 led by b: b=p0, c=p1
  event generation_stable 4
  b ← work 'p0'
  c ← work 'p1'
"""

STATIC_RESTART = """
> b1: beats
> a1: closes
  call ← done
> a2: joins as instance a
  event member_left 1 a1 (member a2 took the place of instance a)
  event member_joined 1 a2
  append generation 1 led by a2: b1=b1, a2=a1
  a2 ← generation 1, leader a2 of b1, a2, assignment stands
> a2: syncs
  a2 ← work 'a1'
> a1: beats
  a1 ← FencedInstanceId
      instance 'a' of group readers is member 'a2' now, not 'a1'
> four seconds pass
  b1 ← alive
"""

HANDOVER = """
> b: beats
> the coordinator moves
  b ← NotCoordinator
      led elsewhere
> b: beats
  b ← alive
> a: joins
  event rebalance_started 2 (leader a joined again)
> b: joins
  event generation_ended 2 (leader a joined again)
  append generation 3 led by a: a=-, b=-
  event generation_started 3 (leader a joined again)
  a ← generation 3, leader a of a, b
  b ← generation 3, leader a
> b: syncs
> the coordinator moves again
  b ← NotCoordinator
      led elsewhere
> b: syncs
> a: assigns
  append generation 3 led by a: a=p0, b=p1
  event generation_stable 3
  a ← work 'p0'
  b ← work 'p1'
"""
