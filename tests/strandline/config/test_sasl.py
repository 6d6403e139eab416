"""Settings of logins that would let passwords be read, or log no user in, are refused."""

from __future__ import annotations

import pytest

from strandline.config.load import build
from strandline.config.services import BrokerSettings
from strandline.errors import SettingsError

PORT = {"broker_id": 1, "data_dir": "d", "kafka_port": 0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka_security_protocol": "SASL_SSL"}, "kafka_port has SASL_SSL, which needs sasl_enabled_mech"),
        (
            {"kafka_security_protocol": "SASL_PLAINTEXT", "sasl_enabled_mechanisms": "PLAIN"},
            "kafka_port is not encrypted",
        ),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "mechanism 'GSSAPI' is none of"),
        ({"kafka_security_protocol": "SASL"}, "PLAINTEXT"),
    ],
)
def test_settings_that_protect_nothing_are_refused(given: dict[str, str], message: str) -> None:
    """A12: at the start, with what to change."""
    with pytest.raises(SettingsError, match=message):
        build(BrokerSettings, {**PORT, **given}, {})


def test_each_port_has_its_own_protocol() -> None:
    """A11"""
    settings = build(
        BrokerSettings,
        {
            **PORT,
            "kafka_external_port": 0,
            "kafka_external_security_protocol": "SASL_SSL",
            "sasl_enabled_mechanisms": "PLAIN",
        },
        {},
    )
    assert settings.model_copy(update={"host": "0.0.0.0"}).open_ports() == ["port", "kafka_port"]
    assert [settings.has_logins(port) for port in settings.PORTS] == [False, False, False, True]
