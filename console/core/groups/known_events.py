"""What the window knows of one group: its rebalances, and what its members said of tasks. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from strandline.console.core.groups.rebalances import History, rebalances
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


class KnownEvents:
    """Reads a group's rebalances out of a window, again only if there are new events."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._kept: OrderedDict[str, tuple[tuple[int, Ref], History]] = OrderedDict()

    def row(self, group: str) -> GroupRow | None:
        """What the window has of a group."""
        return self._window.rows.groups.get(group)

    def rebalances(self, group: str) -> History:
        """The last rebalances of a group; none if the window has no event of it."""
        marks = [] if (row := self.row(group)) is None else row.events.between(0, ALWAYS, MARKS_MAX)
        refs = sorted(ref for _, kind, ref in marks if not kind.startswith("task_"))[-EVENTS_MAX:]
        version = len(refs), refs[-1] if refs else -1
        kept = self._kept.pop(group, None)
        if kept is None or kept[0] != version:
            # In the order of their offsets: members' clocks may disagree.
            found = [(event_id(ref), self._window.event(ref)) for ref in refs]
            kept = version, rebalances((name, event) for name, event in found if isinstance(event, Mapping))
        self._kept[group] = kept
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return kept[1]

    def groups_with_tasks(self) -> set[str]:
        """The groups whose members spoke of tasks."""
        return {row.group for row in self._window.rows.groups if row.tasks}
