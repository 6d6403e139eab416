"""The cluster that the commands use, and how its clients connect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from strandline.cli.shell.command import Invocation


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as the commands of `strandline` find it."""

    bootstrap: str
    settings: dict[str, Any]
    """What a client takes besides `bootstrap`."""
    options: list[str]
    """Those with which a member, a process with the same environment, finds it."""

    @classmethod
    def named(cls, bootstrap: str | None, config: Path | None) -> Cluster:
        """The brokers of the option or of STRANDLINE_BOOTSTRAP, else those of `strandline up`, whose settings
        are taken too if no file is named. Raises SettingsError."""
        named = Invocation(bootstrap=bootstrap, command_config=config)
        options: list[str] = []
        if bootstrap is not None:
            options += ["--bootstrap", bootstrap]
        if config is not None:
            options += ["--command-config", str(config)]
        return cls(named.bootstrap_servers(), named.client_settings(), options)


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
