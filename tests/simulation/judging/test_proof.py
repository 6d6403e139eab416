"""The proof that the simulation sees: its mutations still fit the code, and seeds still find them."""

from __future__ import annotations

from typing import Final

import pytest

from strandline_lab.simulation.proof.copies import PACKAGE
from strandline_lab.simulation.proof.mutation import Mutation
from strandline_lab.simulation.proof.mutations.every import MUTATIONS
from strandline_lab.simulation.proof.seeing import SEEDS, look_again, look_for

FAMILIES: Final = sorted({each.row[0] for each in MUTATIONS})
SEEDS_MAX: Final = 40
"""Seeds to try if the recorded one no longer finds its mutation: any change of the simulation may do that."""


def _quick_to_find() -> list[Mutation]:
    """Of each family, the mutation with the lowest seed."""
    seeds = {each: each.seed for each in MUTATIONS if each.seed is not None}
    return [
        min((each for each in seeds if each.row[0] == family), key=seeds.__getitem__) for family in FAMILIES
    ]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: f"{each.row}: {each.name}")
def test_the_text_that_a_mutation_replaces_occurs_once(mutation: Mutation) -> None:
    assert mutation.occurrences(PACKAGE.parent) == 1
    assert mutation.new != mutation.old
    code = (PACKAGE.parent / mutation.path).read_text().replace(mutation.old, mutation.new)
    compile(code, mutation.path, "exec")  # a break of another kind than the one that is meant shows nothing


def test_each_mutation_has_a_name_of_its_own() -> None:
    names = [each.name for each in MUTATIONS]
    assert len(set(names)) == len(names)


def test_as_many_mutations_are_found_as_the_pages_say_and_some_of_each_family() -> None:
    found = [each for each in MUTATIONS if each.seed is not None]
    assert len(found) == 109
    assert sum(each.seed in range(300) for each in found) == 104
    assert set(FAMILIES) == set("THIEQGSKC")
    assert {each.row[0] for each in found} == set(FAMILIES)
    assert all(each.seed in range(SEEDS) for each in found)


@pytest.mark.slow
@pytest.mark.timeout(600)  # up to SEEDS_MAX seeds, on a machine of unknown load
@pytest.mark.parametrize("mutation", _quick_to_find(), ids=lambda each: f"{each.row}: {each.name}")
def test_a_seed_finds_a_mutation_of_each_family(mutation: Mutation) -> None:
    """And that seed is well without the mutation."""
    seen = look_again(mutation)
    if seen.seed is None:
        seen = look_for(mutation, SEEDS_MAX)
    assert seen.seed is not None, f"none of {seen.tried} seeds finds it"
