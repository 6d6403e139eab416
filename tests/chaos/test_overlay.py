"""What Compose takes besides docker-compose.yml for a cluster in containers."""

from __future__ import annotations

from strandline_lab.chaos.containers.compose import BROKERS, overlay


def test_brokers_get_settings_and_constants_by_their_variables() -> None:
    """A constant has the prefix that only tests use: brokers ignore its plain name."""
    services = overlay({"keep_in_sync_ms": 2_000, "preferred_leader_check_ms": 3_600_000}, 64)["services"]
    for broker in BROKERS:
        assert services[f"broker-{broker}"]["environment"] == {
            "STRANDLINE_KEEP_IN_SYNC_MS": "2000",
            "STRANDLINE_TEST_PREFERRED_LEADER_CHECK_MS": "3600000",
        }
