"""`strandline security`: protects what a cluster keeps in ZooKeeper, and issues certificates."""

from __future__ import annotations

import re
from datetime import UTC
from pathlib import Path

import click

from strandline.cli.security.local_zookeeper import local_zookeeper
from strandline.cli.shell.clock import now
from strandline.cli.shell.command import Command, Group, Invocation, pass_invocation, run


@click.group(cls=Group)
def security() -> None:
    """Protect a cluster."""


@security.group(cls=Group)
def ca() -> None:
    """A certificate authority for development and tests."""


@ca.command(cls=Command)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@pass_invocation
def create(invocation: Invocation, folder: Path) -> None:
    """Make an authority in FOLDER: ca.pem, and its key."""
    from strandline.adapters.tls.authority import Authority

    Authority.create(folder, now(UTC))
    invocation.out.line(f"made {folder}/ca.pem")


@ca.command(cls=Command)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("name")
@click.option("--host", "hosts", multiple=True, help="A host name or address of a server; may be repeated.")
@click.option(
    "--days", type=click.IntRange(1, 3_650), default=365, show_default=True, help="How long it is valid."
)
@pass_invocation
def issue(invocation: Invocation, folder: Path, name: str, hosts: tuple[str, ...], days: int) -> None:
    """Issue a certificate for CN=NAME by the authority in FOLDER: NAME.pem and NAME.key.

    Earlier ones of that name are replaced, so this renews them too. With --host it is for a broker or a
    controller, which is also a client; else for a client.
    """
    from strandline.adapters.tls.authority import Authority

    if not re.fullmatch(r"[\w.@-]+", name) or name == "ca":
        raise click.BadParameter(f"{name!r} cannot be the name of files", param_hint="NAME")
    Authority.load(folder).issue(name, now(UTC), days=days, hosts=hosts)
    invocation.out.line(f"issued {folder}/{name}.pem for {days} days")


@security.command("migrate-zookeeper", cls=Command)
@click.option("--enable", "protect", flag_value=True, type=bool, help="Znodes are for the identity only.")
@click.option("--disable", "protect", flag_value=False, type=bool, help="Znodes are for everyone.")
@click.option("--zookeeper", metavar="HOST:PORT,…", help="ZooKeeper, with its chroot; default: see above.")
@click.option("--force", is_flag=True, help="Do it although members of the cluster are not ready.")
@pass_invocation
def migrate_zookeeper(
    invocation: Invocation, protect: bool | None, zookeeper: str | None, force: bool
) -> None:
    """Set the ACLs of all znodes of a cluster that runs.

    The identity and the address are settings, as those of a broker: STRANDLINE_ZOOKEEPER…, or in the file
    that STRANDLINE_CONFIG names; without an address it is the local cluster. First restart all members with
    the identity, then with zookeeper_set_acl, and then enable. A process that is not ready would lose
    access, so the command names it and changes nothing.
    """
    if protect is None:
        raise click.UsageError("say --enable or --disable")
    from strandline.adapters.zookeeper.migration import migrate
    from strandline.config.load import load
    from strandline.config.services.zookeeper import ZooKeeperSettings

    given = local_zookeeper(invocation) if zookeeper is None else {"zookeeper": zookeeper}
    settings = load(ZooKeeperSettings, **given)
    done = run(lambda: migrate(settings, protect=protect, force=force))
    if invocation.out.json:
        invocation.out.emit({"znodes": done.znodes, "changed": done.changed, "left": list(done.left)})
        return
    invocation.out.line(f"{done.znodes:,} znodes, {done.changed:,} of them changed")
    if done.left:
        others = ", ".join(done.left)
        invocation.out.line(f"/ stays as it is, with what is not of the cluster: {others}")
