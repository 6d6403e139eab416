"""What changes to groups would do: from which facts it follows, and what it says."""

from __future__ import annotations

import pytest

from strandline.client.resets.plan import Bounds, Shift, Since, Target, plan
from strandline.console.core.changes import Effect
from strandline.console.core.groups.effects import CONFIRMED_BY, deletion, reset, words_of
from strandline.consumer.described.view import GroupView
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset, DescribedGroup
from tests.consumer.described_groups import viewed

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def shown(target: Target, committed: dict[TopicPartition, int], end: int = 100) -> Effect:
    return reset("g", target, plan(target, committed, {A: Bounds(10, end), B: Bounds(10, end)}))


def test_a_reset_says_how_many_records_are_read_again_and_how_many_are_not_read() -> None:
    effect = shown(50, {A: 80, B: 20})
    assert effect.sentences == (
        "Group g in 2 partitions: it will read from offset 50 on.",
        "30 records will be read again.",
        "30 records will not be read.",
    )
    (table,) = effect.tables
    assert table.rows[0] == ("t", "0", "80", "50", "-30", "50", "")
    nothing = shown("latest", {A: 100, B: 100})
    assert "Every partition is there already." in nothing.sentences
    assert shown("latest", {A: 100}).tables[0].rows[1][2:5] == ("none", "100", "")


@pytest.mark.parametrize(
    ("target", "same"),
    [("latest", True), ("earliest", True), (50, True), (Shift(-5), True), (95, True), (150, True)],
)
def test_a_log_that_grows_does_not_change_the_plan(target: Target, same: bool) -> None:
    """Otherwise the end of a busy topic could never be confirmed."""
    committed = {A: 80, B: 20}
    before, after = shown(target, committed), shown(target, committed, end=120)
    assert (before.fingerprint == after.fingerprint) is same


def test_a_commit_changes_the_plan_and_so_does_another_place() -> None:
    before = shown(50, {A: 80, B: 20})
    assert shown(50, {A: 81, B: 20}).fingerprint != before.fingerprint
    assert shown(51, {A: 80, B: 20}).fingerprint != before.fingerprint
    assert shown(50, {A: 80, B: 20}, end=40).fingerprint != before.fingerprint, "the log ends before it now"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("earliest", "the start of the log"),
        ("latest", "the end of the log"),
        (7, "offset 7"),
        (Since(0), "the first record that is not older than 1970-01-01T00:00:00.000Z"),
        (Shift(1), "1 record after the committed offset"),
    ],
)
def test_a_place_has_words(target: Target, words: str) -> None:
    assert words_of(target) == words


def group(name: str, committed: dict[TopicPartition, int]) -> GroupView:
    described = DescribedGroup(name, "Empty", 3, "consumer", "", "", ())
    return viewed(described, {place: CommittedOffset(offset) for place, offset in committed.items()}, {A: 10})


def test_a_deletion_shows_the_offsets_that_go_and_has_the_name_typed() -> None:
    effect = deletion(group("g", {A: 4, B: 5}))
    assert "Its offsets in 2 partitions of 1 topic go with it" in effect.sentences[0]
    assert effect.tables[0].rows == (("t", "0", "4", "6"), ("t", "1", "5", "unknown"))
    assert (effect.typed, effect.warnings) == ("g", ("This cannot be undone.",))
    assert deletion(group("g", {A: 5, B: 5})).fingerprint != effect.fingerprint
    nothing = deletion(group("g", {}))
    assert "It has no offsets." in nothing.sentences[0]
    assert not nothing.tables


@pytest.mark.parametrize("name", [" g", "g\n", "g\u202e"])
def test_a_name_that_cannot_be_typed_is_confirmed_by_a_word(name: str) -> None:
    effect = deletion(group(name, {}))
    assert effect.typed == CONFIRMED_BY
    assert effect.title.isprintable()
