"""Shared by the commands that run on Spark: the option for its master, and its session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from strandline.cli.shell.command import Invocation
from strandline.errors import SettingsError

if TYPE_CHECKING:
    from strandline.pipeline.core.connection import Connection

DIFFERS: Final = 2
"""Exit status if a check found a difference."""

master_option = click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="Where Spark runs."
)


FEW: Final = {"spark.sql.shuffle.partitions": "8", "spark.sql.codegen.wholeStage": "false"}
"""Settings for event topics, which are small: generated code and empty tasks would take most of the time."""


def topic_exists(invocation: Invocation, topic: str) -> bool:
    """True if the topic exists: internal topics are created with their first record.

    Call it only once there is a session: Spark's JVM is forked from this process, and gRPC does not survive a
    fork.
    """
    from strandline import Admin
    from strandline.pipeline.loop_thread import call

    async def main() -> bool:
        async with Admin(invocation.bootstrap_servers(), **invocation.client_settings()) as admin:
            return topic in await admin.list_topics()

    return call(main())


def connection_of(invocation: Invocation) -> Connection:
    """The cluster of a command, for clients on the driver and in tasks. Raises SettingsError."""
    from strandline.pipeline.core.connection import Connection

    return Connection.of(invocation.bootstrap_servers(), invocation.client_settings())


def open_session(invocation: Invocation, master: str, app: str, doing: str, **conf: str) -> Any:
    """Opens a Spark session for one command; only the pipeline knows its type. Says on standard error that
    Spark starts, and then what the command is `doing`: both may take a minute.

    Raises SettingsError if the extra or Java is not installed.
    """
    try:
        from strandline.pipeline.spark.session import session
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "pipeline":
            raise
        raise SettingsError(
            f"{missing.name} is missing, which the pipeline needs: pip install 'strandline[spark]'"
        ) from missing
    at = "" if master.startswith("local") else f" at {master}, which it tries for a minute"
    invocation.out.note(f"starting Spark{at or ', which takes some seconds'}")
    spark = session(master, f"strandline {app}", **conf)
    invocation.out.note(f"Spark {spark.version} is up: {doing}")
    return spark
