"""`python -m strandline_lab.chaos`: what is asked for, and how a round of it is played again."""

from __future__ import annotations

from pathlib import Path

import pytest
from strandline_lab.chaos.__main__ import arguments, command_of
from strandline_lab.chaos.core.load import OWN, WITH_KAFKA, ClientRoles
from strandline_lab.chaos.rounds import free_folder


@pytest.mark.parametrize(
    "given",
    [
        ["--seconds", "30", "--brokers", "5", "--controllers", "1"],
        ["--seconds", "20.5", "--containers", "--zookeepers", "3"],
        ["--secure", "--brokers", "5", "--controllers", "1"],
        ["--operator"],
    ],
)
@pytest.mark.parametrize("roles", [OWN, WITH_KAFKA])
def test_the_command_that_repeats_a_seed_makes_the_same_round(given: list[str], roles: ClientRoles) -> None:
    wanted = arguments(given)
    program = ["python", "-m", "strandline_lab.chaos"]
    again = command_of(wanted, 17, roles).split()
    assert again[:3] == program
    repeated = arguments(again[3:])
    assert repeated.seeds == [17]
    assert repeated.kafka_clients is (roles is WITH_KAFKA), "also where the other is the default"
    assert vars(repeated) | {"seeds": [], "kafka_clients": None} == vars(wanted)


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
        *(["--rounds", text] for text in ("0", "-1", "1.5", "1_0")),
        ["--seeds", "1", "-2"],
        ["--brokers", "1"],
        ["--controllers", "0"],
        ["--secure", "--containers"],
        ["--operator", "--containers"],
    ],
)
def test_impossible_arguments_are_named(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(given)
    assert ended.value.code == 2
    assert given[-1] in capsys.readouterr().err
