"""The list of groups: what is searched, and what a row says. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from strandline.vocabulary.groups import ListedGroup

STATES: Final = (
    "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Empty", "Dead"
)  # fmt: skip
"""The states of groups (docs/use/groups.md)."""
KINDS: Final = {
    "Stable": "good",
    "PreparingRebalance": "warn",
    "CompletingRebalance": "warn",
    "Assigning": "warn",
    "Reconciling": "warn",
    "Dead": "bad",
}
"""How a state looks beside its word; any other is quiet."""
WORDS: Final = {
    "Stable": "stable",
    "PreparingRebalance": "rebalancing: members join",
    "CompletingRebalance": "rebalancing: waits for the assignment",
    "Assigning": "assigning: its topics are looked at",
    "Reconciling": "reconciling: members go to their targets",
    "Empty": "empty",
    "Dead": "dead",
}


def searched(groups: Iterable[ListedGroup], text: str, state: str) -> list[ListedGroup]:
    """The groups whose name contains the text, in any case, and that are in the state; empty: in any."""
    wanted = text.casefold()
    return [each for each in groups if wanted in each.group.casefold() and (not state or each.state == state)]


def states_of(groups: Sequence[ListedGroup]) -> list[tuple[str, int]]:
    """Each state that there is, with the number of groups in it, in the order of STATES; others last."""
    counts = Counter(each.state for each in groups)
    known = [state for state in STATES if state in counts]
    return [(state, counts[state]) for state in [*known, *sorted(counts.keys() - set(STATES))]]


def words_of(state: str) -> str:
    """A state as the pages write it."""
    return WORDS.get(state, state)


def kind_of(state: str) -> str:
    """The look of a state: good, warn, bad or quiet."""
    return KINDS.get(state, "quiet")
