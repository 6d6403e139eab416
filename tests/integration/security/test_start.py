"""A service does not begin with ports that are open to strangers (docs/correctness.md, X13)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strandline.adapters.service_host import service_host
from strandline.config.services import BrokerSettings, ControllerSettings
from strandline.errors import SettingsError
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
