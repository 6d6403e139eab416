"""`strandline user`: the users who log in by name and password.

A password is read from a file or asked for on the terminal, never taken from the command line. This machine
makes salted keys of it, and sends those.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from strandline.cli.security.local_zookeeper import local_zookeeper
from strandline.cli.shell.command import Group, Invocation, pass_invocation, run
from strandline.errors import SettingsError
from strandline.security.login.credentials import (
    ITERATIONS_DEFAULT,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    PASSWORD_CHARS_MAX,
    SALT_BYTES,
    UserChange,
    make_credential,
)
from strandline.security.login.mechanisms import HASHES, SCRAM_SHA_512, check_user_name

if TYPE_CHECKING:
    from collections.abc import Sequence

WAIT_S_MAX: Final = 15.0
"""How long a command waits for ZooKeeper."""

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
    help="A file with the password; without it, it is asked for.",
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
    from strandline.adapters.zookeeper.security.user_reader import set_user
    from strandline.config.load import load
    from strandline.config.services import ZooKeeperSettings

    changes = _changes(name, mechanisms, _password(password_file), iterations)
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
    """From the file, without the end of its line, or from the terminal. Raises SettingsError."""
    if file is None:
        return str(click.prompt("password", hide_input=True, confirmation_prompt=True, err=True))
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(PASSWORD_CHARS_MAX + 2)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"password file {str(file)!r}: {reason}") from None
    return text.removesuffix("\n").removesuffix("\r")


def _changes(name: str, mechanisms: Sequence[str], password: str, iterations: int) -> list[UserChange]:
    """Each mechanism has a salt of its own. Raises InvalidRequest."""
    check_user_name(name)
    return [
        UserChange(
            name, mechanism, make_credential(mechanism, password, secrets.token_bytes(SALT_BYTES), iterations)
        )
        for mechanism in mechanisms
    ]
