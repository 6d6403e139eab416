"""A service does not begin with ports that are open to strangers (docs/correctness.md, X13)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strandline.adapters.service_host import service_host
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.controller import ControllerSettings
from strandline.errors import SettingsError
from strandline.security.login.mechanisms import SCRAM_SHA_512
from tests.tls_files import TestAuthority


def broker(tmp_path: Path, **settings: object) -> BrokerSettings:
    return BrokerSettings.model_validate({"broker_id": 1, "data_dir": tmp_path, **settings})


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "broker-1.example"])
async def test_an_open_port_is_refused_unless_the_settings_say_so(tmp_path: Path, host: str) -> None:
    """CORRECTNESS X13."""
    for settings in (broker(tmp_path, host=host), ControllerSettings(host=host)):
        with pytest.raises(SettingsError, match="anyone who reaches port could read, write and delete"):
            service_host(settings)
    service_host(broker(tmp_path, host=host, allow_insecure=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
async def test_a_port_of_this_machine_may_be_open(tmp_path: Path, host: str) -> None:
    service_host(broker(tmp_path, host=host, kafka_port=0))


async def test_a_port_that_demands_certificates_may_be_open(tmp_path: Path) -> None:
    """CORRECTNESS X13: every port has to."""
    shown = await asyncio.to_thread(TestAuthority(tmp_path / "tls").issue, "broker-1")
    secure = {"host": "0.0.0.0", "kafka_port": 0, **shown.settings}
    service_host(broker(tmp_path, **secure))
    with pytest.raises(SettingsError, match="anyone who reaches kafka_port could"):
        service_host(broker(tmp_path, **secure, kafka_security_protocol="PLAINTEXT"))
    with pytest.raises(SettingsError, match="anyone who reaches port or kafka_port could"):
        service_host(broker(tmp_path, **secure, ssl_client_auth="none"))


async def test_the_members_key_does_not_cross_a_network_in_plaintext(tmp_path: Path) -> None:
    """CORRECTNESS X13: they send it to the first port, with logins too."""
    shown = await asyncio.to_thread(TestAuthority(tmp_path / "tls").issue, "broker-1")
    logins = {"security_protocol": "SASL_PLAINTEXT", "sasl_enabled_mechanisms": SCRAM_SHA_512}
    service_host(broker(tmp_path, **logins))
    open_to_all = {**logins, "host": "0.0.0.0"}
    for settings in (broker(tmp_path, **open_to_all), ControllerSettings.model_validate(open_to_all)):
        with pytest.raises(SettingsError, match=r"send their key to port unencrypted .*allow_insecure"):
            service_host(settings)
    service_host(broker(tmp_path, **open_to_all, allow_insecure=True))
    others = ("external_security_protocol", "kafka_security_protocol", "kafka_external_security_protocol")
    encrypted = {**open_to_all, **dict.fromkeys(others, "SASL_PLAINTEXT"), **shown.settings}
    ports = {"external_port": 0, "kafka_port": 0, "kafka_external_port": 0}
    assert encrypted["security_protocol"] == "SSL"
    service_host(broker(tmp_path, **encrypted, **ports))
