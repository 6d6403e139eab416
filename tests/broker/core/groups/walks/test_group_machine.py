"""A group at random: any actions of its members, its log and its coordinators (G1, G12, G13).

Members join, sync, beat, leave, commit, fall silent and restart; appends succeed in any order, fail, or
fail and are in the log after all; at any moment another coordinator takes over with what the log has.

* Every call is answered exactly once, by the end of its coordinator at the latest.
* A generation has one leader and one set of members in all answers, and generations never fall.
* A member never gets an assignment that the log does not have, nor two different ones in a generation.
* The visible offsets are those whose commits were written, in the order of the log.
* A coordinator finds in the log what the previous one had answered.
* A coordinator that loads the records of settled writes has the offsets, the assignments and (unless the
  group has gone on since) the generation of the one that settled them: at every point.
* When all faults end, the group becomes stable.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.broker.core.coordinators.effects import Append
from strandline.broker.core.groups.records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from strandline.broker.core.groups.requests import DescribeGroup
from strandline.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    StrandlineError,
    UnknownMemberId,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import (
    DescribedGroup,
    GroupProtocol,
    Joined,
    LeaveGroup,
    LeavingMember,
    MemberIdGiven,
)
from tests.broker.core.groups.support.stage import GROUP, LIMITS, SESSION_MS, Record, Stage, partition

MACHINE_LIMITS = replace(LIMITS, group_initial_rebalance_delay_ms=100, offsets_retention_ms=10**12)
NAMES = st.sampled_from(["a", "b", "c", "S", "T"])
"""Capitals are instances."""

OUTCOMES = st.sampled_from(["written"] * 5 + ["failed", "unknown", "later"])
"""Unknown: it fails, and is in the log for all that."""


@dataclass(slots=True)
class Client:
    name: str
    member: str = ""
    generation: int = -1
    leads: bool = False
    members: list[str] = field(default_factory=list)
    version: int = 0

    @property
    def instance(self) -> str | None:
        return self.name if self.name.isupper() else None

    def forget(self) -> None:
        self.member, self.generation, self.leads = "", -1, False


@dataclass(slots=True)
class Entry:
    """An append in the order of the log. `there`: it is in the log; `known`: its coordinator knows that."""

    append: Append
    there: bool | None = None
    known: bool = False


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[Record] = []  # what the coordinator in office has read
        self.entries: list[Entry] = []  # what it wanted written since
        self.clients: dict[str, Client] = {}
        self.calls: dict[str, tuple[str, Client, Any]] = {}
        self.announced: dict[
            int, tuple[str, frozenset[str]]
        ] = {}  # leader and members by generation, by name
        self.announced_most = 0
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.count = 0
        self.names: dict[str, str] = {}
        self.seen = 0
        self.take_office()

    # --- the coordinator's world -------------------------------------------------------------

    def take_office(self, at_s: float = 100.0) -> None:
        self.stage = Stage(MACHINE_LIMITS, log=self.log, at_s=at_s)
        self.stage.writing = False
        self.seen = 0
        self.look()

    def look(self) -> None:
        """Take note of the appends that are wanted and of the answers that were given."""
        self.entries += [Entry(append) for append in self.stage.wanted]
        self.stage.wanted.clear()
        answers = list(self.stage.answers.items())
        for token, answer in answers[self.seen :]:
            kind, client, what = self.calls.pop(token, ("", None, None))
            if isinstance(client, Client):
                self.answered(kind, client, what, answer)
        self.seen = len(answers)

    def answered(self, kind: str, client: Client, what: Any, answer: Any) -> None:
        if isinstance(answer, (UnknownMemberId, FencedInstanceId)):
            client.forget()
        elif isinstance(answer, IllegalGeneration):
            client.generation = -1
        elif isinstance(answer, MemberIdGiven):
            client.member = answer.member
        elif isinstance(answer, Joined):
            self.joined(client, answer)
        elif kind == "sync" and isinstance(answer, bytes):
            self.synced(client, what, answer)

    def joined(self, client: Client, announced: Joined) -> None:
        client.member, client.generation = announced.member, announced.generation
        client.leads = announced.member == announced.leader and not announced.skip_assignment
        client.members = [member.member for member in announced.members]
        assert announced.generation >= self.announced_most, (
            f"{announced.generation} announced after {self.announced_most}"
        )
        self.announced_most = announced.generation
        leader = self.names[announced.leader]
        before, members = self.announced.get(announced.generation, (leader, frozenset[str]()))
        assert leader == before, (
            f"generation {announced.generation} is announced with leaders {before} and {leader}"
        )
        if announced.members:
            now = frozenset(self.names[member.member] for member in announced.members)
            assert not members or members == now, f"generation {announced.generation}: {members} and {now}"
            members = now
        self.announced[announced.generation] = leader, members
        stored = self.last_group()
        assert stored is not None and stored.generation == announced.generation, "announced and not written"

    def synced(self, client: Client, generation: int, assignment: bytes) -> None:
        stored = self.last_group()
        assert stored is not None and stored.generation == generation
        assert {self.names[m.member]: m.assignment for m in stored.members}[client.name] == assignment
        assert self.assigned.setdefault((generation, client.name), assignment) == assignment

    # --- the log -----------------------------------------------------------------------------

    def records(self, *, known_only: bool) -> list[Record]:
        """The log, or what of it the coordinator in office knows to be there."""
        there = [e for e in self.entries if e.there and (e.known or not known_only)]
        return [*self.log, *(record for entry in there for record in entry.append.records)]

    def last_group(self) -> GroupValue | None:
        for key, value in reversed(self.records(known_only=False)):
            if isinstance(decode_key(key), GroupKey) and value is not None:
                return decode_group_value(value)
        return None

    def offsets(self, records: list[Record]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for key, value in records:
            read = decode_key(key)
            if isinstance(read, OffsetKey):
                if value is None:
                    found.pop(read.name, None)
                else:
                    found[read.name] = decode_offset_value(value).offset
        return found

    @property
    def log_is_current(self) -> bool:
        """True if all that the coordinator decided about the group is in the log, and it knows that."""
        of_group = [e for e in self.entries if isinstance(decode_key(e.append.records[0][0]), GroupKey)]
        return not of_group or of_group[-1].known

    @property
    def pending(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.there is None]

    # --- members -----------------------------------------------------------------------------

    def client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def call(self, kind: str, client: Client, token: str, what: Any = None) -> None:
        self.calls[token] = kind, client, what
        self.look()

    def fresh(self, name: str) -> str:
        self.count += 1
        member = f"{name}{self.count}"
        self.names[member] = name
        return member

    @rule(name=NAMES, changed=st.booleans())
    def join(self, name: str, changed: bool) -> None:
        client = self.client(name)
        client.version += changed
        protocols = (GroupProtocol("range", b"%d" % client.version), GroupProtocol("sticky", b"s"))
        token = self.stage.join(
            client.member,
            self.fresh(name),
            instance=client.instance,
            protocols=protocols,
            rebalance_timeout_ms=30_000,
        )
        self.call("join", client, token)

    @rule(
        names=st.lists(NAMES, min_size=1, unique=True),
        outcomes=st.lists(OUTCOMES, min_size=1, max_size=5),
    )
    def do_what_is_next(self, names: list[str], outcomes: list[str]) -> None:
        """Some do what the state of the group asks of them, as a client would, again and again."""
        for outcome in outcomes:
            for name in names:
                self.do_next(self.client(name))
            self.time_passes(0.1)
            if outcome != "later":
                self.settle_all(outcome)

    def do_next(self, client: Client) -> None:
        if any(kind in ("join", "sync") and who is client for kind, who, _ in self.calls.values()):
            return
        if client.generation < 0 or self.state() == "PreparingRebalance":
            self.join(client.name, changed=False)
            if client.generation < 0 and client.member and not self.calls:
                self.join(client.name, changed=False)
        elif self.state() == "CompletingRebalance":
            self.sync_as(client)
        else:
            self.beat_as(client, 1_000)

    @rule(name=NAMES)
    def restart(self, name: str) -> None:
        """The process is gone, and another one begins."""
        self.client(name).forget()

    @precondition(lambda self: any(client.generation > 0 for client in self.clients.values()))
    @rule(data=st.data(), strangers=st.booleans())
    def sync(self, data: st.DataObject, strangers: bool) -> None:
        self.sync_as(self.any_client(data), strangers=strangers)

    def sync_as(self, client: Client, *, strangers: bool = False) -> None:
        self.count += 1
        work: dict[str, bytes] = {}
        if client.leads:
            work = {member: b"%s/%d" % (member.encode(), self.count) for member in client.members}
        if strangers:
            work["stranger"] = b"x"
        token = self.stage.sync(client.member, client.generation, work, instance=client.instance)
        self.call("sync", client, token, client.generation)

    def any_client(self, data: st.DataObject) -> Client:
        names = sorted(name for name, client in self.clients.items() if client.generation > 0)
        return self.clients[data.draw(st.sampled_from(names))]

    @precondition(lambda self: any(client.generation > 0 for client in self.clients.values()))
    @rule(data=st.data(), wait_ms=st.sampled_from([0, 2_000]))
    def beat(self, data: st.DataObject, wait_ms: int) -> None:
        self.beat_as(self.any_client(data), wait_ms)

    def beat_as(self, client: Client, wait_ms: int) -> None:
        token = self.stage.heartbeat(client.member, client.generation, wait_ms, client.instance)
        self.call("beat", client, token)

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        client = self.client(name)
        leaving = LeavingMember("" if client.instance else client.member, client.instance)
        request = LeaveGroup(GROUP, (leaving,))
        self.stage.ask(request)
        client.forget()
        self.look()

    @precondition(lambda self: any(client.generation > 0 for client in self.clients.values()))
    @rule(
        data=st.data(),
        number=st.integers(0, 2),
        outside=st.booleans(),
        stale=st.sampled_from([0, 0, 1]),
    )
    def commit(self, data: st.DataObject, number: int, outside: bool, stale: int) -> None:
        self.count += 1
        client, offsets = self.any_client(data), {partition(number): self.count}
        claimed = client.generation - stale
        if outside:
            token = self.stage.commit(offsets)
            accepted = bool(self.stage.wanted)
            state = self.state()
            assert accepted == (state in ("", "Empty")), f"from outside while {state}"
        else:
            token = self.stage.commit(offsets, client.member, claimed, instance=client.instance)
            if self.stage.wanted:
                group = self.stage.describe()
                assert claimed == group.generation
                assert client.member in {member.member for member in group.members}
        self.call("commit", client, token)

    @rule(number=st.integers(0, 2))
    def delete_offset(self, number: int) -> None:
        self.stage.delete_offsets(partition(number))
        self.look()

    def state(self) -> str:
        token = self.stage.ask(DescribeGroup(GROUP))
        answer = self.stage.answers[token]
        return "" if isinstance(answer, StrandlineError) else str(answer.state)

    # --- log, time, coordinators -------------------------------------------------------------

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), outcome=OUTCOMES)
    def settle(self, data: st.DataObject, outcome: str) -> None:
        """One write is over: not always the oldest."""
        if outcome != "later":
            entry = data.draw(st.sampled_from(self.pending[:3]), label="entry")
            self.settle_one(entry, outcome)

    def settle_one(self, entry: Entry, outcome: str) -> None:
        entry.there, entry.known = outcome != "failed", outcome == "written"
        error = None if outcome == "written" else CoordinatorNotAvailable(outcome)
        self.stage.play(self.stage.core.appended(entry.append.write_id, error, self.stage.now))
        self.look()

    @rule()
    def all_is_written(self) -> None:
        self.settle_all("written")

    def settle_all(self, outcome: str) -> None:
        """All unfinished appends get this outcome; the appends that follow from it are written."""
        for entry in self.pending:
            self.settle_one(entry, outcome)
        while self.pending:
            self.settle_one(self.pending[0], "written")

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.stage.later(seconds)
        self.look()

    @rule(data=st.data(), pause_s=st.sampled_from([0.0, 60.0]))
    def another_coordinator_takes_over(self, data: st.DataObject, pause_s: float) -> None:
        pending = self.pending
        reached = data.draw(st.integers(0, len(pending)), label="pending appends that are in the log")
        quiet = not pending and all(entry.known for entry in self.entries)
        before = self.stage.describe() if self.state() else None
        self.leave_office()
        for number, entry in enumerate(pending):
            entry.there = number < reached
        self.log = self.records(known_only=False)
        self.entries.clear()
        self.take_office(self.stage.at_s + pause_s)
        if quiet and before is not None and before.state in ("Stable", "CompletingRebalance", "Empty"):
            self.check_continued(before, self.stage.describe() if self.state() else None)

    def check_continued(self, before: Any, after: Any) -> None:
        if after is None:
            assert before.generation == 0 and not self.offsets(self.log)
            return
        assert (after.generation, after.leader, after.protocol) == (
            before.generation,
            before.leader,
            before.protocol,
        )
        assert {(m.member, m.assignment) for m in after.members} == {
            (m.member, m.assignment) for m in before.members
        }
        assigned = any(member.assignment for member in before.members)
        assert after.state == before.state or (before.state == "Stable" and not assigned)

    def leave_office(self) -> None:
        self.stage.unload()
        assert not set(map(str, range(1, self.stage.asked + 1))) - self.stage.answers.keys(), "lost answers"
        self.look()
        assert not self.calls

    # --- what always holds -------------------------------------------------------------------

    @invariant()
    def the_group_is_whole(self) -> None:
        if not self.state():
            return
        group = self.stage.describe()
        members = {member.member for member in group.members}
        assert (group.state == "Empty") == (not members)
        if group.state in ("Stable", "CompletingRebalance"):
            assert group.leader in members
            assert group.protocol in ("range", "sticky")
        assert group.generation >= self.announced_most
        instances = [member.instance for member in group.members if member.instance is not None]
        assert len(set(instances)) == len(instances)

    @invariant()
    def only_written_offsets_are_seen(self) -> None:
        assert self.stage.committed() == self.offsets(self.records(known_only=True))

    @invariant()
    def a_coordinator_that_loads_what_was_settled_has_the_same(self) -> None:
        """CORRECTNESS G12, G13: the records of settled writes alone make what was settled here."""
        other = Stage(MACHINE_LIMITS, log=self.records(known_only=True), at_s=self.stage.at_s)
        other.writing = False
        assert other.offsets() == self.stage.offsets()
        here, there = self.stage.found(), other.found()
        if there is None:
            assert here is None or not (self.log_is_current and (here.generation or self.stage.offsets()))
            return
        assert here is not None
        if here.state not in ("Stable", "CompletingRebalance", "Empty"):
            return
        if here.generation == there.generation:
            mine, others = ({m.member: m.assignment for m in each.members} for each in (here, there))
            assert {m: mine[m] for m in mine if m in others} == {m: others[m] for m in mine if m in others}
        if self.log_is_current:
            self.check_continued(here, there)
            assert (here.protocol_type, identities(here)) == (there.protocol_type, identities(there))

    def teardown(self) -> None:
        """All goes well from now on: the members of now fall silent, two others come."""
        self.all_is_written()
        for _ in range(8):
            self.stage.later(SESSION_MS / 1000)
            self.look()
            self.all_is_written()
        assert self.state() in ("", "Empty")
        tokens = {self.fresh("y"): "", self.fresh("z"): ""}
        for member in tokens:
            tokens[member] = self.stage.enter(member)
        self.stage.later(1)
        self.look()
        self.all_is_written()
        self.stage.writing = True
        self.stage.sync_all(tokens)
        assert self.stage.state == "Stable"
        self.leave_office()


def identities(group: DescribedGroup) -> list[tuple[str, str | None, str, str]]:
    return [(m.member, m.instance, m.client_id, m.host) for m in group.members]


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
