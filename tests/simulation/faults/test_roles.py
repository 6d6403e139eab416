"""Faults find brokers by their roles at any moment, also before there is any (CONTRIBUTING 6)."""

from __future__ import annotations

from random import Random

from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World
from strandline_lab.simulation.faults.fault import Scene
from strandline_lab.simulation.faults.roles import a_coordinator, a_led_partition, active_controller
from strandline_lab.simulation.stage import Stage


def test_no_broker_has_a_role_before_the_first_process_has_reached_zookeeper() -> None:
    with World(1) as world:
        scene = Scene(Stage(Cluster(world)))
        assert a_led_partition(scene, Random(1)) is None
        assert a_coordinator(scene, Random(1)) is None
        assert active_controller(scene) is None
