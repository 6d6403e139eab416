"""One broker's queue of state-change requests: decides what to do with each entry, and in which order.

An entry is a znode with many requests. It passes through these states:

    listed      known by its name; it is read when there is room
    reading     its requests are being read
    read        its requests are known; it waits until the entries before it are read
    executing   some of its requests have not ended yet
    settling    all have ended; the ends are being written into the znode, by compare-and-set
    settled     the znode holds the ends; the entry waits for room in the record
    recording   the lives of its requests are being written into `__state_changes`
    removing    `__state_changes` holds them; the znode is being deleted
    deferred    it is for a later life of this broker: left alone

A crash may repeat any step, and a repeated step changes nothing. The end of a request is the one that the
znode holds. Requests of one partition are executed in the order of the queue, one at a time; partitions
never wait for each other (CORRECTNESS Q2, Q3).

    event methods   note what happened
    step(now_ms)    returns the effects that follow, in order; each is answered by one event
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from strandline import states
from strandline.ids import BrokerEpoch, PartitionKey
from strandline.vocabulary.coalescing import superseded
from strandline.vocabulary.state_changes import End, RequestState, StateChange


class EntryState(Enum):
    LISTED = "listed"
    READING = "reading"
    READ = "read"
    EXECUTING = "executing"
    SETTLING = "settling"
    SETTLED = "settled"
    RECORDING = "recording"
    REMOVING = "removing"
    DEFERRED = "deferred"


_S = EntryState

LEGAL: Final[Mapping[EntryState, frozenset[EntryState]]] = {
    _S.LISTED: frozenset({_S.READING}),
    _S.READING: frozenset({_S.READ, _S.REMOVING}),  # removing: it is malformed
    _S.READ: frozenset({_S.EXECUTING, _S.SETTLING, _S.SETTLED, _S.DEFERRED}),
    _S.EXECUTING: frozenset({_S.SETTLING}),
    _S.SETTLING: frozenset({_S.SETTLED, _S.READING}),  # reading: another client wrote the znode
    _S.SETTLED: frozenset({_S.RECORDING, _S.READING}),  # reading: its requests were dropped while it waited
    _S.RECORDING: frozenset({_S.REMOVING, _S.SETTLED}),  # settled: there was no room in the record
    _S.REMOVING: frozenset({_S.READING}),  # reading: another client wrote the znode
    _S.DEFERRED: frozenset(),
}


def transition(who: object, current: EntryState, wanted: EntryState) -> EntryState:
    """`wanted`, if that may follow `current`. Raises IllegalTransition with the values."""
    return states.transition(f"queue entry {who}", current, wanted, LEGAL)


# --- effects --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """Answer with `read`, `malformed` or `gone`."""

    entry: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Answer with `executed`."""

    entry: str
    change: StateChange


@dataclass(frozen=True, slots=True)
class Settle:
    """Compare-and-set the znode; answer with `settled`, `settle_refused` or `gone`."""

    entry: str
    changes: tuple[StateChange, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Record:
    """Record the whole lives of these; answer with `recorded` or `not_recorded`."""

    entry: str
    changes: tuple[StateChange, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the znode at this version; answer with `gone` or `remove_refused`."""

    entry: str
    version: int


Effect = Read | Execute | Settle | Record | Remove


# --- the machine ----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Entry:
    name: str
    state: EntryState = EntryState.LISTED
    changes: dict[str, StateChange] = field(default_factory=dict)
    """Requests by id, in order. Dropped while a settled entry waits for room in the record."""
    size: int = 0
    """The number of its requests."""
    version: int = -1
    written: bool = False
    """True if all its requests have their ends in the znode."""
    open: set[str] = field(default_factory=set)
    """Requests that have not ended; empty unless it is executing."""
    taken_up: bool = False
    executed: bool = False
    received_at_ms: int = -1

    def become(self, wanted: EntryState) -> None:
        self.state = transition(self.name, self.state, wanted)


@dataclass(slots=True)
class _PartitionQueue:
    """One partition's waiting requests, in the order of the queue."""

    waiting: deque[tuple[_Entry, StateChange]] = field(default_factory=deque)
    executing: bool = False


class StateQueue:
    """The machine of this module. `life` is this broker's: requests for a later life are left alone
    (CORRECTNESS E4)."""

    def __init__(
        self, life: BrokerEpoch, *, entries_max: int, executions_max: int, recordings_max: int
    ) -> None:
        """`entries_max`: unsettled entries held at once; `executions_max`: requests executed at once;
        `recordings_max`: requests whose lives are being recorded at once. One entry may exceed the last."""
        self._life = life
        self._entries_max = entries_max
        self._executions_max = executions_max
        self._recordings_max = recordings_max
        self._entries: dict[str, _Entry] = {}
        self._listed: deque[_Entry] = deque()
        self._held: set[str] = set()
        """Entries that are read and not settled."""
        self._in_order: deque[_Entry] = deque()
        """Entries that wait to be taken up, in their order."""
        self._again: deque[_Entry] = deque()
        """Entries that were taken up before and have been read again."""
        self._partitions: defaultdict[PartitionKey, _PartitionQueue] = defaultdict(_PartitionQueue)
        self._ready: deque[PartitionKey] = deque()
        """Partitions that may execute their first request; one without requests is skipped."""
        self._executing: dict[tuple[str, str], StateChange] = {}
        """Requests by entry and id."""
        self._unrecorded: deque[_Entry] = deque()
        """Settled entries whose requests are not recorded."""
        self._refused: list[_Entry] = []
        """Settled entries for whose record there was no room: they wait for the next listing."""
        self._recording = 0
        """The number of requests whose lives are being recorded."""
        self._effects: list[Effect] = []

    def executed_all(self, names: Iterable[str]) -> bool:
        """True once none of these entries, which were listed, has a request left to execute."""
        none_left = (EntryState.REMOVING, EntryState.DEFERRED)
        return all(
            (entry := self._entries.get(name)) is None or entry.executed or entry.state in none_left
            for name in names
        )

    # --- events ----------------------------------------------------------------------------

    def listed(self, names: Iterable[str]) -> None:
        """The present content of the queue. Names increase in the order in which entries were made."""
        for name in sorted(name for name in names if name not in self._entries):
            entry = self._entries[name] = _Entry(name)
            self._listed.append(entry)
        self._unrecorded.extend(self._refused)
        self._refused.clear()

    def read(self, name: str, changes: Sequence[StateChange], version: int) -> None:
        """The content of the znode. If a request ended both there and here, the end in the znode counts."""
        if not changes:
            self.malformed(name, version)
            return
        entry = self._entries[name]
        known, entry.changes, entry.version = entry.changes, {}, version
        for change in changes:
            ours = known.get(change.request_id)
            entry.changes[change.request_id] = ours if change.end is None and ours is not None else change
        entry.size = len(entry.changes)
        entry.written = all(change.end is not None for change in changes)
        entry.become(EntryState.READ)
        if entry.taken_up:
            self._again.append(entry)

    def malformed(self, name: str, version: int) -> None:
        """The entry cannot be parsed: it is removed, and holds up no other."""
        entry = self._entries[name]
        entry.version = version
        self._remove(entry)

    def gone(self, name: str) -> None:
        """The znode does not exist."""
        entry = self._entries.pop(name)
        assert not entry.open, f"{name} went while {entry.open} were to be executed"
        self._held.discard(name)
        if entry in self._in_order:
            self._in_order.remove(entry)

    def executed(self, name: str, request_id: str, state: RequestState, reason: str, now_ms: int) -> None:
        """A request ended, in one of the ENDS."""
        change = self._executing.pop((name, request_id))
        self._end(self._entries[name], change, state, reason, now_ms)
        self._partitions[change.key].executing = False
        self._ready.append(change.key)

    def settled(self, name: str, version: int) -> None:
        """The znode holds the ends."""
        entry = self._entries[name]
        entry.version, entry.written = version, True
        self._settle(entry)

    def refused(self, name: str) -> None:
        """Another client wrote the znode that was to be settled or removed, or the outcome is unknown."""
        self._read(self._entries[name])

    def recorded(self, name: str) -> None:
        """The lives of its requests are in `__state_changes`."""
        entry = self._entries[name]
        self._recording -= entry.size
        self._remove(entry)

    def not_recorded(self, name: str) -> None:
        """There was no room; the next listing tries again."""
        entry = self._entries[name]
        self._recording -= entry.size
        entry.changes = {}
        entry.become(EntryState.SETTLED)
        self._refused.append(entry)

    # --- the turn --------------------------------------------------------------------------

    def step(self, now_ms: int) -> list[Effect]:
        """The effects that are due now."""
        self._take_up_all(now_ms)
        while self._ready and len(self._executing) < self._executions_max:
            self._execute(self._ready.popleft())
        self._record_settled()
        while self._listed and len(self._held) < self._entries_max:
            entry = self._listed.popleft()
            self._in_order.append(entry)
            self._read(entry)
        effects, self._effects = self._effects, []
        return effects

    def _take_up_all(self, now_ms: int) -> None:
        """Takes entries up in the order of the queue: several may hold one partition, and reads finish in
        any order."""
        more_to_do: dict[PartitionKey, None] = {}
        while self._in_order and self._in_order[0].state is not EntryState.READING:
            entry = self._in_order.popleft()
            entry.taken_up, entry.received_at_ms = True, now_ms
            if entry.state is EntryState.READ:  # and not malformed
                more_to_do.update(self._take_up(entry))
        while self._again:
            more_to_do.update(self._take_up(self._again.popleft()))
        for key in more_to_do:
            self._coalesce(self._partitions[key], now_ms)
            self._ready.append(key)

    def _take_up(self, entry: _Entry) -> dict[PartitionKey, None]:
        """The partitions for which there is something to execute."""
        to_do = [change for change in entry.changes.values() if change.end is None]
        if any(change.broker_epoch > self._life for change in to_do):
            self._held.discard(entry.name)
            entry.changes = {}
            entry.become(EntryState.DEFERRED)
        elif to_do:
            entry.open.update(change.request_id for change in to_do)
            entry.become(EntryState.EXECUTING)
            for change in to_do:
                self._partitions[change.key].waiting.append((entry, change))
            return dict.fromkeys(change.key for change in to_do)
        elif entry.written:
            self._settle(entry)
        else:
            self._write(entry)
        return {}

    def _coalesce(self, partition: _PartitionQueue, now_ms: int) -> None:
        """End the requests that later ones make needless; a request that is being executed continues."""
        reasons = superseded([change for _, change in partition.waiting])
        if reasons:
            waiting, partition.waiting = partition.waiting, deque()
            for entry, change in waiting:
                reason = reasons.get(change.request_id)
                if reason is None:
                    partition.waiting.append((entry, change))
                else:
                    self._end(entry, change, RequestState.SUPERSEDED, reason, now_ms)

    def _execute(self, key: PartitionKey) -> None:
        partition = self._partitions.get(key)
        if partition is None or partition.executing:
            return
        if not partition.waiting:
            del self._partitions[key]
            return
        entry, change = partition.waiting.popleft()
        partition.executing = True
        self._executing[entry.name, change.request_id] = change
        self._effects.append(Execute(entry.name, change))

    def _end(self, entry: _Entry, change: StateChange, state: RequestState, reason: str, now_ms: int) -> None:
        end = End(state, now_ms, entry.received_at_ms, reason)
        entry.changes[change.request_id] = replace(change, end=end)
        entry.open.remove(change.request_id)
        if not entry.open:
            self._write(entry)

    def _record_settled(self) -> None:
        """The oldest first. An entry that has to wait drops its requests and reads them again later."""
        while self._unrecorded:
            entry = self._unrecorded[0]
            if self._recording and self._recording + entry.size > self._recordings_max:
                entry.changes = {}
                return
            if entry.changes:
                self._recording += entry.size
                entry.become(EntryState.RECORDING)
                self._effects.append(Record(entry.name, tuple(entry.changes.values())))
            elif len(self._held) < self._entries_max:
                self._read(entry)
            else:
                return
            self._unrecorded.popleft()

    # --- entries ---------------------------------------------------------------------------

    def _read(self, entry: _Entry) -> None:
        self._held.add(entry.name)
        entry.become(EntryState.READING)
        self._effects.append(Read(entry.name))

    def _write(self, entry: _Entry) -> None:
        entry.executed = True
        entry.become(EntryState.SETTLING)
        self._effects.append(Settle(entry.name, tuple(entry.changes.values()), entry.version))

    def _settle(self, entry: _Entry) -> None:
        self._held.discard(entry.name)
        entry.executed = True
        entry.become(EntryState.SETTLED)
        self._unrecorded.append(entry)

    def _remove(self, entry: _Entry) -> None:
        self._held.discard(entry.name)
        entry.changes = {}
        entry.become(EntryState.REMOVING)
        self._effects.append(Remove(entry.name, entry.version))
