"""The proof that the simulation sees: its mutations still fit the code, and seeds still find them."""

from __future__ import annotations

from typing import Final

import pytest

from strandline.simulation.proof.copies import ROOT
from strandline.simulation.proof.mutation import Mutation
from strandline.simulation.proof.mutations.every import MUTATIONS

FAMILIES: Final = ("T", "H", "I", "E", "Q", "G", "S")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: f"{each.row}: {each.name}")
def test_the_text_that_a_mutation_replaces_occurs_once(mutation: Mutation) -> None:
    assert mutation.occurrences(ROOT) == 1
    assert mutation.new != mutation.old


def test_there_are_mutations_of_each_family_and_each_has_a_name_of_its_own() -> None:
    names = [each.name for each in MUTATIONS]
    assert len(set(names)) == len(names) >= 30
    assert {each.row[0] for each in MUTATIONS} >= set(FAMILIES)
