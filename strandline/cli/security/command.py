"""`strandline security`: protects what a cluster keeps in ZooKeeper."""

from __future__ import annotations

import os

import click

from strandline.cli.shell.command import Command, Group, Invocation, pass_invocation, run


@click.group(cls=Group)
def security() -> None:
    """Protect a cluster."""


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
    from strandline.config.services import ZooKeeperSettings

    settings = load(ZooKeeperSettings, zookeeper=zookeeper or _local(invocation))
    done = run(lambda: migrate(settings, protect=protect, force=force))
    if invocation.out.json:
        invocation.out.emit({"znodes": done.znodes, "changed": done.changed, "left": list(done.left)})
        return
    invocation.out.line(f"{done.znodes:,} znodes, {done.changed:,} of them changed")
    if done.left:
        others = ", ".join(done.left)
        invocation.out.line(f"/ stays as it is, with what is not of the cluster: {others}")


def _local(invocation: Invocation) -> str | None:
    """The ZooKeeper of the local cluster, if there is one and the settings name none."""
    named = {"STRANDLINE_ZOOKEEPER", "STRANDLINE_CONFIG"} & {name.upper() for name in os.environ}
    if named or not invocation.directory.exists():
        return None
    from strandline.local.cluster import LocalCluster

    return LocalCluster.open(invocation.directory).zookeeper
