"""`strandline-lab chaos`: what is asked for, and how a round of it is played again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from strandline_lab.chaos.core.load import OWN, WITH_KAFKA, ClientRoles
from strandline_lab.chaos.rounds import free_folder
from strandline_lab.cli.chaos import chaos, command_of, seeds_of


def wanted(*given: str) -> dict[str, Any]:
    """What a command line asks for. Raises UsageError."""
    return chaos.make_context("chaos", list(given)).params


@pytest.mark.parametrize(
    "given",
    [
        ["--seconds", "30", "--brokers", "5", "--controllers", "1"],
        ["--seconds", "20.5", "--containers", "--zookeepers", "3"],
        ["--secure", "--brokers", "5", "--controllers", "1"],
        ["--operator", "--faults", "pause,kill"],
    ],
)
@pytest.mark.parametrize("roles", [OWN, WITH_KAFKA])
def test_the_command_that_repeats_a_seed_makes_the_same_round(given: list[str], roles: ClientRoles) -> None:
    asked = wanted(*given)
    program, command, *again = shlex.split(command_of(17, roles, asked))
    assert (program, command) == ("strandline-lab", "chaos")
    repeated = wanted(*again)
    assert repeated["seed"] == 17
    assert repeated["kafka_clients"] is (roles is WITH_KAFKA), "also where the other is the default"
    assert repeated | {"seed": None, "kafka_clients": None} == asked


def test_seeds_count_up_and_without_a_number_of_rounds_hours_end_them() -> None:
    assert list(seeds_of(7, None, endless=False)) == [7]
    assert list(seeds_of(7, 3, endless=False)) == list(seeds_of(7, 3, endless=True)) == [7, 8, 9]
    endless = seeds_of(7, None, endless=True)
    assert [next(endless) for _ in range(5)] == [7, 8, 9, 10, 11]


def test_a_seed_that_is_played_again_has_a_folder_of_its_own(tmp_path: Path) -> None:
    first = free_folder(tmp_path, 7)
    first.mkdir()
    second = free_folder(tmp_path, 7)
    second.mkdir()
    assert len({first, second, free_folder(tmp_path, 7), free_folder(tmp_path, 8)}) == 4


@pytest.mark.parametrize(
    "given",
    [
        *(["--seconds", text] for text in ("0", "4.9", "-3", "nan", "inf", "abc", "")),
        *(["--hours", text] for text in ("-1", "nan", "inf", "soon")),
        *(["--rounds", text] for text in ("0", "-1", "1.5", "1_0x")),
        ["--seed", "-2"],
        ["--brokers", "1"],
        ["--controllers", "0"],
        ["--zookeepers", "2"],
    ],
)
def test_impossible_arguments_are_named(given: list[str]) -> None:
    with pytest.raises(click.UsageError) as error:
        wanted(*given)
    assert given[0] in error.value.format_message()


@pytest.mark.parametrize("option", ["--secure", "--operator"])
def test_containers_have_no_certificates_and_no_operator(option: str) -> None:
    with pytest.raises(click.UsageError, match=option):
        chaos.main(["--containers", option], standalone_mode=False)
