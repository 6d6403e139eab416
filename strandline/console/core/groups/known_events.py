"""What the window knows of one group: its rebalances, and what its members said of tasks. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strandline.console.core.groups.rebalances import History, rebalances
from strandline.console.core.timeline.lanes.marks import Marks
from strandline.console.core.timeline.places import Ref, event_id
from strandline.console.core.timeline.rows import GroupRow
from strandline.console.core.window import Window

MARKS_MAX: Final = 20_000
"""The newest events of a group among which its rebalances are looked for: most may be about tasks."""
EVENTS_MAX: Final = 400
"""Events that are read for the rebalances of one group."""
KEPT_MAX: Final = 64
"""Groups whose rebalances are kept, since reading them takes milliseconds."""
ALWAYS: Final = 2**62


@dataclass(frozen=True, slots=True)
class _Known:
    """The rebalances of a group: of the events `refs`, which `marks` had after this number of `changes`."""

    marks: Marks
    changes: int
    refs: list[Ref]
    history: History


class KnownEvents:
    """Reads a group's rebalances out of a window, again only if there are new events."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._kept: OrderedDict[str, _Known] = OrderedDict()

    def row(self, group: str) -> GroupRow | None:
        """What the window has of a group."""
        return self._window.rows.groups.get(group)

    def rebalances(self, group: str) -> History:
        """The last rebalances of a group; none if the window has no event of it."""
        kept = self._kept.pop(group, None)
        if (row := self.row(group)) is None:
            return rebalances(())
        if kept is None or kept.marks is not row.events or kept.changes != row.events.changes:
            kept = self._read(row.events, kept)
        self._kept[group] = kept
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return kept.history

    def _read(self, marks: Marks, before: _Known | None) -> _Known:
        newest = marks.between(0, ALWAYS, MARKS_MAX)
        # In the order of their offsets: members' clocks may disagree.
        refs = sorted(ref for _, kind, ref in newest if not kind.startswith("task_"))[-EVENTS_MAX:]
        if before is not None and before.marks is marks and before.refs == refs:
            history = before.history
        else:
            found = [(event_id(ref), self._window.event(ref)) for ref in refs]
            history = rebalances((name, event) for name, event in found if isinstance(event, Mapping))
        return _Known(marks, marks.changes, refs, history)

    def groups_with_tasks(self) -> set[str]:
        """The groups whose members spoke of tasks."""
        return {row.group for row in self._window.rows.groups if row.tasks}
