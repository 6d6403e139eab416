"""Which partitions are busy, and what idle ones do later."""

from __future__ import annotations

from strandline.broker.core.election.traffic import IDLE_ISR_S, ISR_LOT_MAX, TRAFFIC_S, idle_delay_s, is_busy

NOW = 100.0


def test_a_partition_is_busy_for_a_while_after_its_last_traffic() -> None:
    assert is_busy(NOW, NOW)
    assert is_busy(NOW - TRAFFIC_S, NOW)
    assert not is_busy(NOW - TRAFFIC_S - 0.1, NOW)
    assert not is_busy(float("-inf"), NOW)


def test_idle_partitions_of_one_lot_act_at_the_same_moment_and_lots_one_after_the_other() -> None:
    delays = [idle_delay_s(number) for number in range(3 * ISR_LOT_MAX)]
    assert delays[0] == IDLE_ISR_S
    assert sorted(delays) == delays
    assert [delays.count(each) for each in sorted(set(delays))] == [ISR_LOT_MAX] * 3
