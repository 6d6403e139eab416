"""Decides if a round has Kafka clients. Their libraries are no dependency of strandline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import metadata

from strandline.errors import StrandlineError
from strandline_lab.chaos.core.load import KAFKA, OWN, WITH_KAFKA, ClientRoles, Library

VersionOf = Callable[[Library], str | None]
"""The installed version of a library; None if it is not installed."""


class LibraryMissing(StrandlineError):
    """A library of Kafka clients is not installed; the message says how to install it."""


def version_here(library: Library) -> str | None:
    """The version that is installed in this environment."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def roles_for(kafka_clients: bool | None, version_of: VersionOf = version_here) -> ClientRoles:
    """The clients of a round. None: with Kafka clients if all of their libraries are installed.

    Raises LibraryMissing if Kafka clients are wanted and cannot run.
    """
    lacking = missing(KAFKA, version_of)
    if kafka_clients and lacking:
        raise LibraryMissing(how_to_install(lacking))
    wanted = not lacking if kafka_clients is None else kafka_clients
    return WITH_KAFKA if wanted else OWN


def described(roles: ClientRoles, version_of: VersionOf = version_here) -> str:
    """A line that says which clients take part."""
    if roles.has_kafka:
        versions = (f"{library} {version_of(library)}" for library in KAFKA)
        return f"clients: strandline's, {' and '.join(versions)}"
    lacking = missing(KAFKA, version_of)
    return f"clients: strandline's alone{f'; {how_to_install(lacking)}' if lacking else ''}"


def missing(libraries: Iterable[Library], version_of: VersionOf = version_here) -> Sequence[Library]:
    """Those that are not installed."""
    return [library for library in libraries if version_of(library) is None]


def how_to_install(libraries: Iterable[Library]) -> str:
    """What to do about libraries that are missing."""
    names = [str(library) for library in libraries]
    are = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {are} not installed: pip install {' '.join(names)}"
