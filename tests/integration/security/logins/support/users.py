"""Users of a cluster that runs, and the clients that log in as they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from strandline import Admin
from strandline.errors import StrandlineError
from strandline.local.cluster import LocalCluster
from strandline.security.login.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tests.strandline.cli.support.cli_process import strandline
from tests.waiting import eventually

MECHANISMS: Final = [SCRAM_SHA_512, SCRAM_SHA_256]
PASSWORD: Final = "wonderland-1"


def client(name: str = "root", mechanism: str = SCRAM_SHA_512, password: str = PASSWORD) -> dict[str, Any]:
    """The settings of a client without encryption."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": name,
        "sasl_password": password,
    }


def with_password_file(settings: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """These settings of a client, with the password in a file instead."""
    others = {name: value for name, value in settings.items() if name != "sasl_password"}
    return {**others, "sasl_password_file": str(file)}


async def add_users(
    cluster: LocalCluster,
    folder: Path,
    *names: str,
    password: str = PASSWORD,
    mechanisms: Sequence[str] = MECHANISMS,
) -> None:
    """Users that brokers know a moment later. Leaves their password in `folder`/password."""
    file = folder / "password"
    file.write_text(f"{password}\n")
    file.chmod(0o600)
    options = [part for mechanism in mechanisms for part in ("--mechanism", mechanism)]
    identity: dict[str, Any] = {
        f"STRANDLINE_{name.upper()}": str(value) for name, value in cluster.zookeeper_settings.items()
    }
    for name in names:
        line = ["user", "bootstrap", name, "--zookeeper", cluster.zookeeper, "--password-file", str(file)]
        ended = await strandline(*line, *options, **identity)
        assert ended.status == 0, ended.err


async def with_users(
    cluster: LocalCluster, folder: Path, *names: str, addresses: str = "", **of_port: Any
) -> LocalCluster:
    """The cluster, once root and the others can log in at these addresses, or all, and at the controller.
    `of_port`: what root's clients need besides. Leaves the password in `folder`/password."""
    await add_users(cluster, folder, "root", *names)

    async def known() -> bool:
        try:
            for address in (addresses or cluster.bootstrap).split(","):
                async with Admin(address, **{**client(), **of_port}) as admin:
                    await admin.list_topics()
                    await admin.describe_cluster()
        except StrandlineError:
            return False
        return True

    await eventually(known, what="root can log in everywhere")
    return cluster
