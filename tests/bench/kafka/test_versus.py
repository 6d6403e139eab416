"""What the comparison with other systems takes from its command line and its clients."""

from __future__ import annotations

import pytest

from strandline.errors import SettingsError
from strandline_lab.bench.kafka.peers import Given, parse_pids
from strandline_lab.bench.kafka.versus import longest_gap_s


def test_a_system_is_given_by_its_brokers_and_pids() -> None:
    peer = Given("other", "127.0.0.1:9092", "1=401,2=402,3=403", "restart {broker}")
    assert peer.brokers == 3
    assert peer.pids() == [401, 402, 403]


@pytest.mark.parametrize("text", ["401", "1=x", "1=2=3"])
def test_pids_that_name_no_broker_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="BROKER=PID"):
        parse_pids(text)


async def test_a_restart_that_prints_no_pid_is_an_error() -> None:
    """The next kill would have no process to hit."""
    with pytest.raises(RuntimeError, match="printed no pid"):
        await Given("other", "", "1=401", "true").start(1)


async def test_a_restarted_broker_has_the_pid_that_was_printed_last() -> None:
    peer = Given("other", "", "2=402", "echo started; echo 40{broker}1")
    await peer.start(1)
    assert peer.pids() == [402, 4011]


def test_the_longest_gap_is_between_neighbours() -> None:
    assert longest_gap_s([1.0, 1.25, 2.5, 2.75]) == 1.25
