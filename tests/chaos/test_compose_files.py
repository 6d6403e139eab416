"""The compose files speak of settings that exist: a process ignores variables that it does not know."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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
    assert settings["SSL_KEYFILE"] == f"{TLS}/member.key"
    assert settings["ALLOW_INSECURE"] == "false"
    chosen: dict[str, object] = {name.lower(): text for name, text in settings.items() if name not in OTHERS}
    chosen |= {"ssl_certfile": "/c", "ssl_keyfile": "/k", "ssl_principal_mapping_rules": "DEFAULT"}
    ports = {"external_port": 1, "kafka_port": 2, "kafka_external_port": 3}
    given = {"broker_id": 1, "data_dir": "/d", "host": "0.0.0.0"}
    broker = build(BrokerSettings, {**given, **ports, **chosen}, {})
    assert broker.open_ports() == []
    assert not broker.metrics_for_all


# --- what a container may do ----------------------------------------------------------------

SECURE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.secure.yml").read_text())
CERTIFIED: Final = ("controller-1", "controller-2", "broker-1", "broker-2", "broker-3", "console")
TLS: Final = "/var/lib/strandline/tls"


def test_no_container_has_a_capability_that_it_does_not_need_or_writes_to_its_image() -> None:
    """Those of the second file are added to the first one's."""
    opened = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    services = {**opened, "certificates": SECURE["services"]["certificates"]}
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert service.get("cap_add", []) == (["CHOWN"] if name == "certificates" else []), name
        assert not service.get("privileged"), name
    for name, service in SECURE["services"].items():
        assert name == "certificates" or not {"cap_add", "privileged", "user"} & service.keys(), name


def test_a_member_mounts_its_own_keys_and_no_others() -> None:
    """The authority's key is where certificates are made, and nowhere else. The console is the admin."""
    services = SECURE["services"]
    for name in CERTIFIED:
        own, admin = f"tls-{name}:{TLS}:ro", "tls-admin:/var/lib/strandline/admin:ro"
        assert services[name]["volumes"] == ([own, admin] if name == "console" else [own])
    made = services["certificates"]
    assert made["command"][2:] == list(CERTIFIED)
    folders = [f"tls-{name}:/var/lib/strandline/members/{name}" for name in (*CERTIFIED, "admin")]
    assert made["volumes"] == ["authority:/var/lib/strandline/authority", *folders]
    assert made["network_mode"] == "none"
    assert SECURE["volumes"].keys() == {"authority", *(f"tls-{name}" for name in (*CERTIFIED, "admin"))}


def test_the_script_gives_each_member_its_own_files_and_renews_them(tmp_path: Path) -> None:
    """The secure cluster's `certificates`, with this user in place of the image's."""
    for folder in ("authority", "members/broker-1", "members/console", "members/admin"):
        (tmp_path / folder).mkdir(parents=True)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "FILES_HOME": str(tmp_path),
        "FILES_OWNER": f"{os.getuid()}:{os.getgid()}",
    }
    before: dict[str, bytes] = {}
    for _ in range(2):
        subprocess.run(
            ["sh", ROOT / "docker/certificates.sh", "broker-1", "console"],
            env=environment, check=True, timeout=60, capture_output=True,
        )  # fmt: skip
        files = {
            str(path.relative_to(tmp_path / "members")): path for path in (tmp_path / "members").glob("*/*")
        }
        own = {"ca.pem", "client.toml", "member.key", "member.pem"}
        made = {f"{name}/{each}" for name in ("broker-1", "console", "admin") for each in own}
        assert files.keys() == made | {"broker-1/zookeeper-auth"}
        assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600}
        now = {name: path.read_bytes() for name, path in files.items()}
        keys = [now[f"{name}/member.key"] for name in ("broker-1", "console", "admin")]
        assert len({*keys, (tmp_path / "authority/ca.key").read_bytes()}) == 4
        if before:
            same = {name for name in now if now[name] == before[name]}
            assert same == {name for name in now if not name.endswith(("member.key", "member.pem"))}
        before = now


def test_everything_that_is_installed_to_build_has_hashes() -> None:
    """The images' packages, and uv, which makes the locks."""
    for name in ("requirements.lock", "docker/strandline.lock", "docker/zookeeper.lock", "checks/uv.lock"):
        text = (ROOT / name).read_text()
        pinned = re.findall(r"^[a-zA-Z0-9._-]+==(?:.*\n)(    --hash=sha256)?", text, re.MULTILINE)
        assert pinned and all(pinned), name
    for name in ("Makefile", "Dockerfile"):
        for line in re.findall(r"pip install(?:.|\\\n)*", (ROOT / name).read_text()):
            assert "--require-hashes" in line or "--no-deps" in line, line


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
