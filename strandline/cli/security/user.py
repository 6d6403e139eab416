"""`strandline user`: the users who log in by name and password.

A password is read from a file or asked for on the terminal, never taken from the command line. This machine
makes salted keys of it, and sends those (KIP-554).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from strandline.adapters.system.secret_file import refuse_readable_by_others
from strandline.cli.security.local_zookeeper import local_zookeeper
from strandline.cli.shell.command import Group, Invocation, pass_invocation, run
from strandline.errors import SettingsError
from strandline.security.login.credentials import (
    ITERATIONS_DEFAULT,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    PASSWORD_CHARS_MAX,
    SALT_BYTES,
    with_password,
)
from strandline.security.login.mechanisms import HASHES, SCRAM_SHA_512

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline.vocabulary.admin import UserDescription

WAIT_S_MAX: Final = 15.0
"""How long a command waits for ZooKeeper."""

STDIN: Final = 0

_MECHANISM: Final = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(list(HASHES)),
    multiple=True,
    default=[SCRAM_SHA_512],
    show_default=True,
    help="What the user logs in by; may be repeated. PLAIN takes the password of either.",
)
_PASSWORD_FILE: Final = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the password, which other users cannot read; default: the command asks for it.",
)
_ITERATIONS: Final = click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_DEFAULT,
    show_default=True,
    help="How much work a guess, or a login, is.",
)


@click.group(cls=Group)
def user() -> None:
    """Set, list and delete the users who log in by name and password."""


@user.command("set")
@click.argument("name")
@_MECHANISM
@_PASSWORD_FILE
@_ITERATIONS
@pass_invocation
def set_(
    invocation: Invocation,
    name: str,
    mechanisms: Sequence[str],
    password_file: Path | None,
    iterations: int,
) -> None:
    """Create a user, or give it another password for these mechanisms.

    Its credentials for other mechanisms stay. Brokers know it a moment later.
    """
    from strandline import Admin

    password = _password(password_file)

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            await admin.set_user(name, password, mechanisms=mechanisms, iterations=iterations)

    run(main)
    invocation.out.note(f"user {name} is set")


@user.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@pass_invocation
def list_(invocation: Invocation, names: tuple[str, ...]) -> None:
    """List the users, or these: the mechanisms of each, with their iterations.

    A user without any cannot log in: its znode is unreadable. Set it again, or delete it.
    """
    from strandline import Admin

    async def main() -> Sequence[UserDescription]:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return await admin.describe_users(names)

    found = run(main)
    for each in found:
        if each.error is not None:
            raise each.error
    if invocation.out.json:
        for each in found:
            invocation.out.emit({"user": each.user, "iterations": dict(each.iterations)})
    elif found:
        rows = [
            (each.user, ", ".join(f"{name} ({count})" for name, count in sorted(each.iterations.items())))
            for each in found
        ]
        invocation.out.table(("user", "mechanisms (iterations)"), rows)


@user.command()
@click.argument("name")
@click.option("--mechanism", type=click.Choice(list(HASHES)), help="Only the credential for this mechanism.")
@pass_invocation
def delete(invocation: Invocation, name: str, mechanism: str | None) -> None:
    """Delete a user. With its last credential a user is gone, too.

    Connections that it has logged in go on until they have to log in again.
    """
    from strandline import Admin

    async def main() -> None:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            await admin.delete_user(name, mechanism)

    run(main)
    invocation.out.note(f"user {name} is deleted" if mechanism is None else f"{name} has no {mechanism} now")


@user.command()
@click.argument("name")
@click.option(
    "--zookeeper", metavar="HOST:PORT", help="Default: STRANDLINE_ZOOKEEPER, or that of the local cluster."
)
@_MECHANISM
@_PASSWORD_FILE
@_ITERATIONS
@pass_invocation
def bootstrap(
    invocation: Invocation,
    name: str,
    zookeeper: str | None,
    mechanisms: Sequence[str],
    password_file: Path | None,
    iterations: int,
) -> None:
    """Set a user in ZooKeeper itself, with ZooKeeper's rights.

    It is for the first user, who cannot log in before it exists. Brokers know it within seconds.
    """
    from strandline.adapters.service_host import service_host
    from strandline.adapters.zookeeper.security.first_user import set_user
    from strandline.config.load import load
    from strandline.config.services.zookeeper import ZooKeeperSettings

    password = _password(password_file)
    changes = with_password(name, password, mechanisms, iterations, lambda: secrets.token_bytes(SALT_BYTES))
    given = local_zookeeper(invocation) if zookeeper is None else {"zookeeper": zookeeper}
    settings = load(ZooKeeperSettings, **given)

    async def main() -> None:
        session = await service_host().connect_coordination(settings, _waiting)
        try:
            await set_user(session, name, changes)
        finally:
            await session.close()

    run(main)
    invocation.out.note(f"user {name} is set")


def _waiting(seconds: float) -> None:
    if seconds > WAIT_S_MAX:
        raise SettingsError(f"ZooKeeper does not answer after {seconds:.0f} s")


def _password(file: Path | None) -> str:
    """From the file, without the end of its line, or from the terminal. Raises SettingsError, and
    click.UsageError if there is neither."""
    if file is None:
        if not os.isatty(STDIN):
            raise click.UsageError("there is no terminal to ask for the password: use --password-file FILE")
        return str(click.prompt("password", hide_input=True, confirmation_prompt=True, err=True))
    refuse_readable_by_others("password file", file)
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(PASSWORD_CHARS_MAX + 2)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"password file {str(file)!r}: {reason}") from None
    return text.removesuffix("\n").removesuffix("\r")
