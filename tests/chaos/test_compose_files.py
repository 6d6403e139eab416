"""The compose files speak of settings that exist: a process ignores variables that it does not know."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from strandline.config.console import ConsoleSettings
from strandline.config.load import build
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.controller import ControllerSettings

ROOT = Path(__file__).parents[2]
PROCESSES = (BrokerSettings, ControllerSettings, ConsoleSettings)
OTHERS = {"CLIENT_CONFIG"}
"""Of the command line."""


@pytest.mark.parametrize("name", ["docker-compose.yml", "docker-compose.secure.yml"])
def test_every_variable_is_a_setting(name: str) -> None:
    text = (ROOT / name).read_text()
    given = set(re.findall(r"^ +STRANDLINE_(\w+):", text, re.MULTILINE))
    known = {field.upper() for cls in PROCESSES for field in cls.model_fields}
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


# --- profiles ---------------------------------------------------------------------------

SERVICES: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
COMPOSE: Final = shutil.which("docker-compose")


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def mounted(service: str, path: str) -> Path:
    """The file of this tree that the container sees under this path."""
    for volume in SERVICES[service]["volumes"]:
        source, target, *_ = volume.split(":")
        if source.startswith("./") and path.startswith(target):
            return ROOT.joinpath(source, path.removeprefix(target).lstrip("/"))
    raise AssertionError(f"{service} has no {path}")


def test_prometheus_scrapes_every_member_and_reads_the_rules() -> None:
    """A member that is added to the file has to be added to the targets."""
    (option, *_) = [each for each in SERVICES["prometheus"]["command"] if each.startswith("--config.file=")]
    config = mounted("prometheus", option.partition("=")[2])
    (job,) = yaml.safe_load(config.read_text())["scrape_configs"]
    scraped = {target for each in job["static_configs"] for target in each["targets"]}
    members = [name for name in SERVICES if name.startswith(("broker-", "controller-"))]
    ports = {name: SERVICES[name]["environment"]["STRANDLINE_METRICS_PORT"] for name in members}
    assert scraped == {f"{name}:{port}" for name, port in ports.items()}
    assert job["job_name"].startswith("strandline"), "alarms look for clusters by this"
    for name in read("deploy/prometheus/containers.yml")["rule_files"]:
        assert (config.parent / name).exists()


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    (source,) = yaml.safe_load(
        mounted("grafana", "/etc/grafana/provisioning/datasources/strandline.yml").read_text()
    )["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load(
        mounted("grafana", "/etc/grafana/provisioning/dashboards/strandline.yml").read_text()
    )["providers"]
    assert mounted("grafana", f"{provider['options']['path']}/strandline.json").exists()


@pytest.mark.skipif(COMPOSE is None, reason="no docker-compose on PATH")
@pytest.mark.parametrize(
    ("profile", "services"), [("metrics", {"prometheus", "grafana"}), ("console", {"console"})]
)
def test_compose_takes_the_file_with_the_profile(profile: str, services: set[str]) -> None:
    """Without the profile none of these is started."""
    command = [
        str(COMPOSE),
        f"--file={ROOT / 'docker-compose.yml'}",
        f"--profile={profile}",
        "config",
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    profiled = {name for name, service in SERVICES.items() if service.get("profiles") == [profile]}
    assert profiled == services
