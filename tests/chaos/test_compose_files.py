"""The compose files speak of settings that exist: a process ignores variables that it does not know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strandline.config.load import build
from strandline.config.services import BrokerSettings, ControllerSettings

ROOT = Path(__file__).parents[2]
OTHERS = {"CLIENT_CONFIG"}
"""Of the command line."""


@pytest.mark.parametrize("name", ["docker-compose.yml", "docker-compose.secure.yml"])
def test_every_variable_is_a_setting(name: str) -> None:
    text = (ROOT / name).read_text()
    given = set(re.findall(r"^ +STRANDLINE_(\w+):", text, re.MULTILINE))
    known = {field.upper() for cls in (BrokerSettings, ControllerSettings) for field in cls.model_fields}
    assert given
    assert given <= known | OTHERS


def test_the_secure_file_opens_no_port_to_strangers() -> None:
    """docker-compose.yml says `allow_insecure`; with the second file a process would not begin."""
    text = (ROOT / "docker-compose.secure.yml").read_text()
    settings = dict(re.findall(r"^  STRANDLINE_(\w+): \"?([^\s\"]+)", text, re.MULTILINE))
    assert settings["ALLOW_INSECURE"] == "false"
    chosen: dict[str, object] = {name.lower(): text for name, text in settings.items() if name not in OTHERS}
    chosen |= {"ssl_certfile": "/c", "ssl_keyfile": "/k", "ssl_principal_mapping_rules": "DEFAULT"}
    ports = {"external_port": 1, "kafka_port": 2, "kafka_external_port": 3}
    given = {"broker_id": 1, "data_dir": "/d", "host": "0.0.0.0"}
    broker = build(BrokerSettings, {**given, **ports, **chosen}, {})
    assert broker.open_ports() == []
    assert not broker.metrics_for_all
