"""What changes to groups would do, in words and tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.client.resets.plan import Reset, Shift, Since, Target
from strandline.console.core.changes import Effect, Fact, Table
from strandline.console.core.words import counted, number, shown, utc
from strandline.consumer.described.view import GroupView

CONFIRMED_BY: Final = "delete"
"""What is typed to delete a group whose name cannot be typed as it is."""
OFFSET_COLUMNS: Final = ("topic", "partition", "committed", "new", "change", "lag then", "note")


def reset(group: str, target: Target, resets: Sequence[Reset]) -> Effect:
    """Where a reset puts each partition.

    It follows from the committed offsets, and from the logs only as far as they decide where a partition
    goes: a log that grows does not change the plan to go to its end.
    """
    facts: dict[str, Fact] = {
        f"{each.name.topic}/{each.name.partition}": [each.committed, _place(each)] for each in resets
    }
    again = sum(-each.change for each in resets if each.change is not None and each.change < 0)
    skipped = sum(each.change for each in resets if each.change is not None and each.change > 0)
    sentences = [
        f"Group {shown(group)} in {counted(len(resets), 'partition')}: it will read from "
        f"{words_of(target)} on."
    ]
    if again:
        sentences.append(f"{counted(again, 'record')} will be read again.")
    if skipped:
        sentences.append(f"{counted(skipped, 'record')} will not be read.")
    if all(each.change == 0 for each in resets):
        sentences.append("Every partition is there already.")
    if any(_place(each) in ("start", "end") for each in resets):
        sentences.append("A partition that goes to an end of its log goes to where that is then.")
    rows = [_cells(each) for each in resets]
    return Effect(
        f"Reset offsets of group {shown(group)}",
        tuple(sentences),
        facts,
        (Table.of("Offsets before and after", OFFSET_COLUMNS, rows),),
    )


def words_of(target: Target) -> str:
    """Where a reset goes, in words.

    >>> words_of(Shift(-5))
    '5 records before the committed offset'
    """
    match target:
        case "earliest":
            return "the start of the log"
        case "latest":
            return "the end of the log"
        case Since(at_ms):
            return f"the first record that is not older than {utc(at_ms)}"
        case Shift(records):
            side = "before" if records < 0 else "after"
            return f"{counted(abs(records), 'record')} {side} the committed offset"
        case int():
            return f"offset {target}"


def _place(each: Reset) -> int | str:
    """Where a partition goes: an end of its log, which moves, or an offset."""
    if each.new == each.bounds.end:
        return "end"
    return "start" if each.new == each.bounds.start else each.new


def _cells(each: Reset) -> tuple[str, ...]:
    return (
        each.name.topic,
        str(each.name.partition),
        "none" if each.committed is None else number(each.committed),
        number(each.new),
        "" if each.change is None else f"{each.change:+,}",
        number(each.lag),
        each.note,
    )


def deletion(view: GroupView) -> Effect:
    """The end of a group without members, and of its offsets."""
    group = view.group.group
    kept = [each for each in view.partitions if each.committed is not None]
    facts: dict[str, Fact] = {f"{each.name.topic}/{each.name.partition}": each.committed for each in kept}
    topics = len({each.name.topic for each in kept})
    lost = "It has no offsets."
    if kept:
        lost = (
            f"Its offsets in {counted(len(kept), 'partition')} of {counted(topics, 'topic')} go with it: a "
            "consumer that joins under this name later begins where its own offset_reset says."
        )
    rows = [(each.name.topic, each.name.partition, number(each.committed), number(each.lag)) for each in kept]
    table = Table.of("Offsets that are deleted", ("topic", "partition", "committed", "lag"), rows)
    return Effect(
        f"Delete group {shown(group)}",
        (f"Group {shown(group)} is deleted. {lost}", "No record of a topic is deleted."),
        facts,
        (table,) if kept else (),
        ("This cannot be undone.",) if kept else (),
        group if group.isprintable() and group == group.strip() else CONFIRMED_BY,
    )
