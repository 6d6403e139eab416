"""The containers of `deploy/kubernetes/secure`, run by an engine as a kubelet would (docs/run/kubernetes.md).

Their users, variables, mounts and read-only file systems are those of the manifests. What a Secret holds is
in a volume for each pod.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest

from strandline_lab.chaos.containers.commands import CommandFailed
from strandline_lab.chaos.containers.engine import IMAGE, Engine
from tests.deploy.support.manifests import Workload, expanded, identity, rendered
from tests.waiting import eventually

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

NAME = "strandline-chaos-pods"
STRANDLINE = 10001
IMAGES = {"zookeeper": f"{IMAGE}-zookeeper", "controller": IMAGE, "broker": IMAGE}
READY_S_MAX = 240.0
BROKERS = ("sh", "-c", 'strandline --bootstrap "$STRANDLINE_ADVERTISED_HOST:9092" -o json broker list')
PROBE = """
import ssl, sys, urllib.request
context = ssl._create_unverified_context()
urllib.request.urlopen(sys.argv[1], timeout=5, context=context)
"""
"""As the kubelet asks: without a certificate, and without a look at the server's."""
SECRETS = """
set -eu
umask 077
mkdir ca
strandline security ca create ca
for pod in {pods}; do
    host=$pod.${{pod%-*}}.strandline.svc
    strandline security ca issue ca $pod --host $host --host bootstrap.strandline.svc
    cp ca/ca.pem /secrets/$pod/tls/ca.pem
    cp ca/$pod.pem /secrets/$pod/tls/member.pem
    cp ca/$pod.key /secrets/$pod/tls/member.key
    echo strandline:a-password-of-this-test > /secrets/$pod/credentials/zookeeper-auth
    echo a-token-of-this-test > /secrets/$pod/credentials/metrics-token
    printf '%s' "$CLIENT" > /secrets/$pod/client/client.toml
    chown -R 0:{group} /secrets/$pod
    chmod -R u=rX,g=rX,o= /secrets/$pod
done
"""


class Pods:
    """The pods of the secure cluster: a container for each."""

    def __init__(self, engine: Engine) -> None:
        self.resources = rendered("secure")
        self.workloads = {name: Workload(self.resources, name) for name in IMAGES}
        self.docker = engine.docker

    def all(self) -> Iterator[tuple[Workload, int, str]]:
        """Each with its ordinal and its name."""
        for workload in self.workloads.values():
            for ordinal, name in zip(workload.ordinals, workload.names, strict=True):
                yield workload, ordinal, name

    async def start(self) -> None:
        await self.docker("network", "create", NAME)
        await self._make_secrets()
        for workload, ordinal, name in self.all():
            await self._run(workload, ordinal, name)

    async def _make_secrets(self) -> None:
        members = [name for workload, _, name in self.all() if workload.name != "zookeeper"]
        mounts = [
            f"--volume={NAME}-{member}-{each}:/secrets/{member}/{each}"
            for member in members
            for each in ("tls", "credentials", "client")
        ]
        (client,) = [each["data"] for each in self.resources if identity(each) == ("ConfigMap", "client")]
        script = SECRETS.format(pods=" ".join(members), group=STRANDLINE)
        variable = f"--env=CLIENT={client['client.toml']}"
        await self.docker(
            "run", "--rm", "--user=0", "--workdir=/root", variable, *mounts, IMAGE, "sh", "-c", script
        )

    async def _run(self, workload: Workload, ordinal: int, name: str) -> None:
        user = workload.pod["securityContext"]["runAsUser"]
        service = f"{name}.{workload.spec['serviceName']}"
        aliases = [service, f"{service}.strandline.svc"]
        if workload.name == "broker":
            aliases.append("bootstrap.strandline.svc")
        environment = workload.environment(ordinal)
        mounts: dict[str, str] = {}
        for path, mount in workload.mounts.items():
            whole = path.rpartition("/")[0] if "subPath" in str(mount) else path
            mounts[whole] = f"{NAME}-{name}-{mount['name']}"
            assert expanded(mount.get("subPathExpr", name), environment).startswith(name)
        await self.docker(
            "run", "--detach", f"--name={NAME}-{name}", f"--network={NAME}", f"--hostname={name}",
            *(f"--network-alias={alias}" for alias in aliases),
            f"--user={user}:{user}", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
            *(f"--volume={volume}:{path}" for path, volume in mounts.items()),
            *(f"--env={variable}={value}" for variable, value in environment.items()),
            IMAGES[workload.name], *workload.container.get("command", ()),
        )  # fmt: skip

    async def inside(self, name: str, *command: str) -> str:
        return await self.docker("exec", f"{NAME}-{name}", *command, timeout_s=180.0)

    async def passes(self, workload: Workload, name: str, probe: str) -> bool:
        """Whether the container answers a probe of its manifest."""
        wanted = workload.container[probe]
        command = wanted.get("exec", {}).get("command")
        if command is None:
            port, path = workload.ports["metrics"], wanted["httpGet"]["path"]
            url = f"{wanted['httpGet']['scheme'].lower()}://127.0.0.1:{port}{path}"
            command = ["python", "-c", PROBE, url]
        try:
            await self.inside(name, *command)
        except CommandFailed:
            return False
        return True

    async def ready(self, workload: Workload, name: str) -> None:
        await eventually(
            lambda: self.passes(workload, name, "readinessProbe"),
            deadline_s=READY_S_MAX,
            what=f"{name} is ready",
        )

    async def remove(self) -> None:
        for kind in ("container", "volume", "network"):
            listed = ["--all"] if kind == "container" else []
            found = await self.docker(kind, "ls", *listed, "--quiet", f"--filter=name={NAME}")
            if found.split():
                force = [] if kind == "network" else ["--force"]
                await self.docker(kind, "rm", *force, *found.split())


@pytest.fixture
async def pods(docker: Engine) -> AsyncIterator[Pods]:
    found = Pods(docker)
    await found.remove()
    try:
        await found.start()
        yield found
    finally:
        await found.remove()


async def test_pods_become_ready_and_a_broker_is_drained_stopped_and_back(pods: Pods) -> None:
    for workload, _, name in pods.all():
        await pods.ready(workload, name)
        if workload.name != "zookeeper":
            assert await pods.passes(workload, name, "livenessProbe")
    broker = pods.workloads["broker"]
    last = broker.names[-1]
    await pods.inside(last, *broker.container["lifecycle"]["preStop"]["exec"]["command"])
    listed = await pods.inside("broker-1", *BROKERS)
    assert drained(listed) == [3]
    stopping = f"{NAME}-{last}"
    await pods.docker("stop", "--time=60", stopping, timeout_s=90.0)
    status = await pods.docker("inspect", "--format={{.State.ExitCode}}", stopping)
    assert status.strip() == "0", "it was not killed: it ended after a handover"
    await pods.docker("start", stopping)
    await pods.ready(broker, last)

    async def none_is_drained() -> bool:
        return drained(await pods.inside("broker-1", *BROKERS)) == []

    await eventually(none_is_drained, deadline_s=60, what="the drain ends when the broker is back")
    for path in ("/etc/strandline/tls/member.key", "/etc/strandline/credentials/zookeeper-auth"):
        mode = await pods.inside("broker-1", "stat", "--format=%a %u %g", path)
        assert mode.split() == ["440", "0", str(STRANDLINE)]


def drained(listed: str) -> list[int]:
    rows = [json.loads(line) for line in listed.splitlines() if line.startswith("{")]
    assert len(rows) == 3
    return [row["broker"] for row in rows if row["drained"]]
