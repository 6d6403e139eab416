"""The cluster that the commands use, and how its clients connect."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from strandline import LocalCluster
from strandline.cli.shell.command import read_client_settings


@dataclass(frozen=True, slots=True)
class Cluster:
    """`config` is a file with the settings of its clients; None: they have none."""

    bootstrap: str
    config: Path | None

    @property
    def settings(self) -> dict[str, Any]:
        """What a client takes besides `bootstrap`. Raises SettingsError."""
        return {} if self.config is None else read_client_settings(self.config)

    @property
    def options(self) -> list[str]:
        """Those with which another process finds it."""
        config = [] if self.config is None else ["--command-config", str(self.config)]
        return ["--bootstrap", self.bootstrap, *config]

    @classmethod
    def named(cls, bootstrap: str | None, config: Path | None) -> Cluster:
        """The brokers of the option or of STRANDLINE_BOOTSTRAP, else those of `strandline up`, whose file is
        taken too if no other is named. Raises SettingsError."""
        named = os.environ.get("STRANDLINE_CLIENT_CONFIG")
        config = config or (Path(named) if named else None)
        bootstrap = bootstrap or os.environ.get("STRANDLINE_BOOTSTRAP")
        if bootstrap:
            return cls(bootstrap, config)
        local = LocalCluster.open(Path(os.environ.get("STRANDLINE_DIR", ".strandline")))
        return cls(local.bootstrap, config or (local.directory / "client.toml" if local.secure else None))


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that name the cluster, and the cluster as its first argument."""

    @click.option("--bootstrap", show_default="the local cluster", help="Brokers, host:port,…")
    @click.option(
        "--command-config", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="TOML file with the settings of clients; default: those of the local cluster.",
    )  # fmt: skip
    @wraps(command)
    def with_cluster(*, bootstrap: str | None, command_config: Path | None, **others: Any) -> None:
        command(Cluster.named(bootstrap, command_config), **others)

    return with_cluster
