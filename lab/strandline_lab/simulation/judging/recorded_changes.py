"""What `__state_changes` should hold at the end of a run. Pure."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable

from strandline.auditing.checks import Finding
from strandline.vocabulary.state_changes import StateChangeEvent
from strandline_lab.auditing import requests


def with_crowded_out(
    recorded: Iterable[StateChangeEvent], crowded_out: Iterable[StateChangeEvent]
) -> list[StateChangeEvent]:
    """The changes, with those that had no room in a trail while `__state_changes` was not writable: the
    bound is by design, and ZooKeeper's log shows that they happened."""
    changes = list(recorded)
    known = {change.identity for change in changes}
    return [*changes, *(each for each in crowded_out if each.identity not in known)]


def without_end(changes: Iterable[StateChangeEvent], due: Collection[str]) -> list[Finding]:
    """The requests with these ids that have not ended once, all changes given."""
    return requests.findings([each for each in changes if each.id in due], settled_ms=sys.maxsize)
