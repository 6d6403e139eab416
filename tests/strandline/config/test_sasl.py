"""Settings of logins that would let passwords be read, or log no user in, are refused."""

from __future__ import annotations

import pytest

from strandline.config.load import build
from strandline.config.services.broker import BrokerSettings
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


def with_tokens(**changes: str) -> dict[str, str]:
    """Settings of a port at which tokens are taken."""
    given = {
        "kafka_security_protocol": "SASL_SSL",
        "sasl_enabled_mechanisms": "OAUTHBEARER",
        "sasl_oauthbearer_jwks_url": "https://issuer.example/keys",
        "sasl_oauthbearer_expected_issuer": "https://issuer.example",
        "sasl_oauthbearer_expected_audience": "tides",
        **changes,
    }
    return {name: value for name, value in given.items() if value}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka_security_protocol": "SASL_PLAINTEXT"}, "has OAUTHBEARER, and kafka_port is not encrypted"),
        ({"sasl_oauthbearer_jwks_url": ""}, "set sasl_oauthbearer_jwks_file or"),
        ({"sasl_oauthbearer_jwks_file": "keys.json"}, "not both"),
        ({"sasl_oauthbearer_jwks_url": "http://issuer.example/keys"}, "keys come over https"),
        ({"sasl_oauthbearer_jwks_url": "https://a:b@issuer.example"}, "leave names and passwords out"),
        ({"sasl_oauthbearer_jwks_url": "file:///etc/keys"}, "keys come over https"),
        ({"sasl_oauthbearer_expected_issuer": ""}, "needs sasl_oauthbearer_expected_issuer"),
        ({"sasl_oauthbearer_expected_audience": ""}, "needs sasl_oauthbearer_expected_audience"),
        ({"sasl_oauthbearer_algorithms": "RS256,HS256"}, "'HS256' is none of"),
        ({"sasl_oauthbearer_algorithms": "none"}, "'none' is none of"),
        ({"sasl_oauthbearer_algorithms": ","}, "at least one"),
    ],
)
def test_settings_that_take_tokens_of_others_are_refused(changes: dict[str, str], message: str) -> None:
    """A16: at the start, with what to change."""
    with pytest.raises(SettingsError, match=message):
        build(BrokerSettings, {**PORT, **with_tokens(**changes)}, {})


def test_the_settings_say_which_tokens_count() -> None:
    """A16"""
    rules = build(BrokerSettings, {**PORT, **with_tokens()}, {}).token_rules()
    assert (rules.issuer, rules.audience, rules.name_claim) == ("https://issuer.example", "tides", "sub")
    assert rules.algorithms == ("RS256", "ES256", "EdDSA")
    local = with_tokens(sasl_oauthbearer_jwks_url="http://127.0.0.1:8080/keys")
    assert build(BrokerSettings, {**PORT, **local}, {}).mechanisms == ("OAUTHBEARER",)


def test_each_port_has_its_own_protocol() -> None:
    """A11"""
    settings = build(
        BrokerSettings,
        {
            **PORT,
            "replication_port": 0,
            "kafka_external_port": 0,
            "kafka_external_security_protocol": "SASL_SSL",
            "sasl_enabled_mechanisms": "PLAIN",
        },
        {},
    )
    assert settings.model_copy(update={"host": "0.0.0.0"}).open_ports() == [
        "port", "replication_port", "kafka_port",
    ]  # fmt: skip
    assert [port for port in settings.PORTS if settings.has_logins(port)] == ["kafka_external_port"]
