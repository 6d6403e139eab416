"""`deploy/kubernetes` is what Kubernetes takes, and agrees with the programs, the images and the settings."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from itertools import product

import click
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from strandline.adapters.system.unknown_settings import unknown_names
from strandline.adapters.telemetry.metrics_pages import ALIVE, READY
from strandline.cli.__main__ import cli
from strandline.config.load import build
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.controller import ControllerSettings
from strandline.errors import SettingsError
from tests.deploy.support.manifests import FOLDER, ROOT, Workload, containers, expanded, identity, rendered

KUSTOMIZATIONS = ("base", "secure")
VERSIONS = ("1.28", "1.37")
"""The oldest Kubernetes that these manifests need, and the newest whose schemas are here."""
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OF_IMAGE = dict(re.findall(r"(STRANDLINE_\w+)=(\S+)", DOCKERFILE))
"""The variables that the image sets."""
MEMBERS: dict[str, type[BrokerSettings | ControllerSettings]] = {
    "broker": BrokerSettings,
    "controller": ControllerSettings,
}
ZONE = "metadata.labels['topology.kubernetes.io/zone']"


def member(kustomization: str, name: str) -> Workload:
    return Workload(rendered(kustomization), name)


def settings(
    kustomization: str, name: str, labels: Mapping[str, str] | None = None
) -> BrokerSettings | ControllerSettings:
    """Those of the first pod, with `labels` besides what every Kubernetes gives it."""
    return build(MEMBERS[name], {}, OF_IMAGE | member(kustomization, name).environment(1, labels))


@pytest.mark.parametrize(("kustomization", "version"), list(product(KUSTOMIZATIONS, VERSIONS)))
def test_every_resource_fits_the_schema_of_its_kind(kustomization: str, version: str) -> None:
    """Strictly: a field that the schema does not know is refused, too."""
    resources = rendered(kustomization)
    assert len(resources) > 10
    for each in resources:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS)
def test_kubectl_renders_the_same(kustomization: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", FOLDER / kustomization], check=True, capture_output=True, text=True
    )
    theirs = {identity(each): each for each in yaml.safe_load_all(done.stdout)}
    ours = {identity(each): each for each in rendered(kustomization)}
    assert theirs.keys() == ours.keys()
    for each, resource in ours.items():
        assert in_order(theirs[each]) == in_order(resource)


def in_order(value: object) -> object:
    """The order in a list that was merged is no part of the comparison."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return sorted((in_order(each) for each in value), key=repr)
    return value


@pytest.mark.parametrize(("kustomization", "name"), list(product(KUSTOMIZATIONS, MEMBERS)))
def test_every_variable_is_a_setting_and_has_an_allowed_value(kustomization: str, name: str) -> None:
    workload = member(kustomization, name)
    for ordinal in workload.ordinals:
        environment = OF_IMAGE | workload.environment(ordinal)
        assert unknown_names(environment) == []
        assert "$(" not in str(environment)
        found = build(MEMBERS[name], {}, environment)
        assert (found.broker_id if isinstance(found, BrokerSettings) else found.controller_id) == ordinal
        assert found.advertised_host == f"{name}-{ordinal}.{workload.spec['serviceName']}.strandline.svc"


def test_a_brokers_rack_is_its_nodes_zone_if_kubernetes_says_it() -> None:
    for labels, rack in (({ZONE: "eu-1b"}, "eu-1b"), ({}, "")):
        found = settings("base", "broker", labels)
        assert isinstance(found, BrokerSettings)
        assert found.rack == rack


def test_a_pod_without_a_number_does_not_begin() -> None:
    """An older Kubernetes sets no such label: every broker would have the same id."""
    with pytest.raises(SettingsError, match="broker_id"):
        settings("base", "broker", {"metadata.labels['apps.kubernetes.io/pod-index']": ""})


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS)
def test_variables_of_services_are_no_settings(kustomization: str) -> None:
    """A Service called `strandline` would give every pod STRANDLINE_PORT=tcp://…, the name of a setting."""
    assert all(pod["enableServiceLinks"] is False for pod, _ in containers(rendered(kustomization)))
    with pytest.raises(SettingsError, match="STRANDLINE_PORT"):
        build(ControllerSettings, {}, {"STRANDLINE_PORT": "tcp://10.96.0.7:9092"})


def test_the_secure_cluster_opens_no_port_to_strangers() -> None:
    for name in MEMBERS:
        found = settings("secure", name)
        assert not found.allow_insecure
        assert found.open_ports() == []
        assert not found.metrics_for_all
        assert not found.metrics_demand_certificates, "the kubelet has none"
        assert found.zookeeper_set_acl


@pytest.mark.parametrize("name", MEMBERS)
def test_the_secure_files_are_mounted_each_members_own(name: str) -> None:
    workload = member("secure", name)
    found = settings("secure", name).model_dump()
    files = [str(path) for field, path in found.items() if field.endswith("file") and "/etc/" in str(path)]
    assert len(files) == 5
    for path in files:
        assert path in workload.mounts or path.rpartition("/")[0] in workload.mounts, path
    key = workload.mounts[str(found["ssl_keyfile"])]
    assert expanded(key["subPathExpr"], workload.environment(2)) == f"{name}-2.key"
    secrets = [each["secret"] for each in workload.pod["volumes"] if "secret" in each]
    assert {each["defaultMode"] for each in secrets} == {0o440}, "a key that others can read is refused"
    client = workload.environment(1)["STRANDLINE_CLIENT_CONFIG"]
    (data,) = [each["data"] for each in rendered("secure") if identity(each) == ("ConfigMap", "client")]
    assert client.rpartition("/")[0] in workload.mounts
    assert {each for each in tomllib.loads(data["client.toml"]).values() if "/" in each} <= set(files)


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS)
def test_ports_are_those_of_the_settings(kustomization: str) -> None:
    for name in MEMBERS:
        found, workload = settings(kustomization, name), member(kustomization, name)
        expected = {"grpc": found.port, "metrics": found.metrics_port}
        if isinstance(found, BrokerSettings):
            expected |= {"kafka": found.kafka_port, "replication": found.replication_port}
        assert workload.ports == expected
        paths = {"startupProbe": {ALIVE, READY}, "livenessProbe": {ALIVE}, "readinessProbe": {READY}}
        for probe, allowed in paths.items():
            request = workload.container[probe]["httpGet"]
            assert request["path"] in allowed
            assert (request["port"], request.get("scheme", "HTTP")) == (
                "metrics",
                "HTTPS" if found.metrics_ssl else "HTTP",
            )


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS)
def test_services_budgets_and_policies_are_about_pods_that_exist(kustomization: str) -> None:
    resources = rendered(kustomization)
    workloads = {name: Workload(resources, name) for name in ("zookeeper", "controller", "broker")}
    for workload in workloads.values():
        labels = workload.spec["template"]["metadata"]["labels"]
        assert workload.spec["selector"]["matchLabels"].items() <= labels.items()
        assert labels["app.kubernetes.io/name"] == workload.name
    for each in resources:
        if each["kind"] == "Service":
            workload = workloads[each["spec"]["selector"]["app.kubernetes.io/name"]]
            for port in each["spec"]["ports"]:
                assert workload.ports[port["targetPort"]] == port["port"]
        if each["kind"] == "PodDisruptionBudget":
            assert each["spec"]["maxUnavailable"] == 1
            name = each["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]
            assert workloads.pop(name).name == each["metadata"]["name"]
    assert not workloads, "each has a budget"


def test_policies_let_in_what_there_is_and_clients_to_no_more_than_they_need() -> None:
    resources = rendered("base")
    policies = {
        each["metadata"]["name"]: each["spec"] for each in resources if each["kind"] == "NetworkPolicy"
    }
    opened = {
        name: {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
        for name, spec in policies.items()
    }
    assert opened["zookeeper"] == set(Workload(resources, "zookeeper").ports.values())
    assert opened["members"] == set(Workload(resources, "broker").ports.values())
    assert "namespaceSelector" not in str(policies["zookeeper"]), "ZooKeeper is for members alone"


def test_zookeepers_nodes_are_those_that_are_named() -> None:
    workload = member("base", "zookeeper")
    names = [f"{name}.{workload.spec['serviceName']}" for name in workload.names]
    environment = workload.environment(2)
    assert environment["ZOOKEEPER_ID"] == "2"
    assert environment["ZOOKEEPER_SERVERS"].split() == names
    client = workload.ports["client"]
    assert settings("base", "broker").zookeeper.split(",") == [f"{name}:{client}" for name in names]
    (check,) = re.findall(r"COPY (.*) /opt/zookeeper/", DOCKERFILE)
    (probe,) = workload.container["readinessProbe"]["exec"]["command"][1:]
    assert f"docker/{probe.rpartition('/')[2]}" in check.split()


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS)
def test_containers_have_no_right_that_they_do_not_need(kustomization: str) -> None:
    users = dict(re.findall(r"useradd --uid (\d+) --gid (\w+)", DOCKERFILE))
    for pod, container in containers(rendered(kustomization)):
        rights = pod["securityContext"]
        assert rights["runAsNonRoot"]
        assert container["image"].removeprefix("strandline-").startswith(users[str(rights["runAsUser"])])
        assert rights["fsGroup"] == rights["runAsGroup"] == rights["runAsUser"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert not pod["automountServiceAccountToken"]


def test_images_have_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    tags = {container["image"] for _, container in containers(rendered("base"))}
    assert tags == {f"strandline:{version}", f"strandline-zookeeper:{version}"}


def test_the_hook_before_a_stop_speaks_the_command_lines_language_and_ends_in_time() -> None:
    workload = member("base", "broker")
    shell, flag, script = workload.container["lifecycle"]["preStop"]["exec"]["command"]
    assert (shell, flag) == ("sh", "-c")
    environment = workload.environment(3)
    commands = [shlex.split(line) for line in script.split(";")]
    timeouts = [words for words in commands if words[0] == "timeout"]
    assert [words[2:5] for words in timeouts] == [
        ["strandline", "broker", "ready"],
        ["strandline", "broker", "drain"],
    ]
    for words in timeouts:
        arguments = [environment.get(word.lstrip("$"), word) for word in words[3:]]
        accepted(cli, arguments)
    (bootstrap,) = [words[1].partition("=")[2] for words in commands if words[0] == "export"]
    port = workload.ports["grpc"]
    assert bootstrap == f"$STRANDLINE_ADVERTISED_HOST:{port}"
    ours = settings("base", "broker")
    assert isinstance(ours, BrokerSettings)
    hook_s = sum(int(words[1]) for words in timeouts)
    assert workload.pod["terminationGracePeriodSeconds"] >= hook_s + ours.handover_ms / 1000 + 30


def accepted(command: click.Command, arguments: list[str]) -> None:
    """The command line's own parser takes the arguments, without doing anything."""
    context = command.make_context(command.name, list(arguments))
    while isinstance(context.command, click.Group):
        name, chosen, rest = context.command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert chosen is not None
        context = chosen.make_context(name, rest, parent=context)
    assert context.params["broker_id"] == 3
