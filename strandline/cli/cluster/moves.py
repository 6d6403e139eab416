"""Reassignments under way: which replicas move, how far they are, how fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from strandline.cli.shell.command import Invocation, run
from strandline.errors import NoReassignmentInProgress
from strandline.ids import TopicPartition
from strandline.report.text.durations import age
from strandline.report.text.replicas import pace_text
from strandline.report.text.sizes import size

if TYPE_CHECKING:
    from strandline.client.admin.moves import CopyProgress, ReassignmentProgress

WATCH_S: Final = 2.0
NOTHING_MOVES: Final = "no replica is moving"
COLUMNS: Final = (
    "topic", "partition", "original", "replicas", "isr", "adding", "removing",
    "done", "left", "rate", "time left", "throttle", "reverting", "overdue",
)  # fmt: skip


def show_moves(invocation: Invocation, *, watch: bool) -> None:
    """List the partitions whose replicas are moving; with `watch` again and again, until none moves."""
    from strandline import Admin
    from strandline.adapters.system.clock import SystemClock

    clock = SystemClock()

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            moves = await admin.reassignment_progress()
            _show(invocation, moves)
            while watch and moves:
                await clock.sleep(WATCH_S)
                moves = await admin.reassignment_progress()
                _show(invocation, moves)

    run(main)


def throttle_moves(
    invocation: Invocation, names: Sequence[str], partition: int | None, bytes_per_s: int
) -> None:
    """Change the throttle of reassignments that are under way: of these topics, or of all if none is named.

    Raises NoReassignmentInProgress for a topic without a partition that moves.
    """
    from strandline import Admin

    async def main() -> Sequence[TopicPartition]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            wanted = None
            if partition is not None:
                wanted = [TopicPartition(names[0], partition)]
            elif names:
                await admin.metadata(names)  # raises for a topic that does not exist
                wanted = _of_topics(names, [each.name for each in await admin.list_reassignments()])
            return await admin.throttle_reassignments(wanted, throttle_bytes_per_s=bytes_per_s)

    changed = run(main)
    if not changed and not invocation.out.json:
        invocation.out.line(NOTHING_MOVES)
    for name in changed:
        if invocation.out.json:
            row = {"topic": name.topic, "partition": name.partition, "throttle": bytes_per_s or None}
            invocation.out.emit(row)
        else:
            limit = f"at most {size(bytes_per_s)}/s" if bytes_per_s else "without a throttle of its own"
            invocation.out.line(f"{name}: {limit}")


def _of_topics(names: Sequence[str], moving: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Those of these topics. Raises NoReassignmentInProgress for one of which none moves."""
    still = [name for name in names if name not in {each.topic for each in moving}]
    if still:
        raise NoReassignmentInProgress(f"no partition of {', '.join(still)} is moving")
    return [each for each in moving if each.topic in names]


def _show(invocation: Invocation, moves: Sequence[ReassignmentProgress]) -> None:
    if invocation.out.json:
        for each in moves:
            invocation.out.emit(move_row(each), flush=True)
    elif moves:
        invocation.out.table(COLUMNS, [_cells(each) for each in moves])
    else:
        invocation.out.line(NOTHING_MOVES)


def move_row(each: ReassignmentProgress) -> dict[str, Any]:
    """A reassignment as JSON; unknown values are null."""
    move = each.move
    return {
        "topic": move.name.topic,
        "partition": move.name.partition,
        "original": list(move.original),
        "replicas": list(move.replicas),
        "isr": list(move.isr),
        "adding": list(each.adding),
        "removing": list(each.removing),
        "bytes_done": each.bytes_done,
        "bytes_left": each.bytes_left,
        "bytes_per_s": each.bytes_per_s,
        "ms_left": each.ms_left,
        "copies": None if each.copies is None else [_copy_row(copy) for copy in each.copies],
        "throttle": move.throttle_bytes_per_s or None,
        "reverting": move.reverting,
        "deadline_at": move.deadline_at_ms or None,
        "overdue": move.overdue,
    }


def _copy_row(copy: CopyProgress) -> dict[str, Any]:
    return {
        "broker": copy.broker,
        "in_sync": copy.in_sync,
        "bytes_done": copy.bytes_done,
        "bytes_left": copy.bytes_left,
        "bytes_per_s": copy.bytes_per_s,
        "ms_left": copy.ms_left,
    }


def _cells(each: ReassignmentProgress) -> list[object]:
    row = move_row(each)
    shown = {
        "done": _size(each.bytes_done),
        "left": _size(each.bytes_left),
        "rate": _rate(each.bytes_per_s),
        "time left": age(each.ms_left),
        "throttle": _rate(row["throttle"]),
    }
    return [shown[column] if column in shown else row[column] for column in COLUMNS]


def copied_text(each: ReassignmentProgress) -> str:
    """How far it is, in words: "4.2 MB are copied, 5.8 MB are left, 1.1 MB/s, 5.3 s". Empty if unknown."""
    if each.bytes_done is None or each.bytes_left is None:
        return ""
    done, left = f"{size(each.bytes_done)} are copied", f"{size(each.bytes_left)} are left"
    return ", ".join([done, left, *pace_text(each.bytes_per_s, each.ms_left)])


def _size(count: int | None) -> str | None:
    return None if count is None else size(count)


def _rate(bytes_per_s: int | None) -> str | None:
    return None if bytes_per_s is None else f"{size(bytes_per_s)}/s"
