"""What the commands that run on Spark share: where they run, and a session there."""

from __future__ import annotations

from typing import Any, Final

import click

from strandline.cli.shell.command import Invocation
from strandline.errors import SettingsError

DIFFERS: Final = 2
"""Exit status if what was looked at is not as it should be."""

master_option = click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="Where Spark runs."
)


FEW: Final = {"spark.sql.shuffle.partitions": "8", "spark.sql.codegen.wholeStage": "false"}
"""For topics of events, which are small: most of the time would go to generated code and empty tasks."""


def topic_exists(invocation: Invocation, topic: str) -> bool:
    """Whether there is such a topic yet: those of the system come with the first that there is to tell.

    To be asked once there is a session: its JVM is forked from this process, which no gRPC survives.
    """
    from strandline import Admin
    from strandline.pipeline.loop_thread import call

    async def main() -> bool:
        async with Admin(invocation.bootstrap_servers()) as admin:
            return topic in await admin.list_topics()

    return call(main())


def open_session(master: str, app: str, **conf: str) -> Any:
    """A session for one command, of a type that only the pipeline knows.

    Raises SettingsError if the extra is not installed, or no Java.
    """
    try:
        from strandline.pipeline.spark.session import session
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "pipeline":
            raise
        raise SettingsError(
            f"{missing.name} is missing, which the pipeline needs: pip install 'strandline[spark]'"
        ) from missing
    return session(master, f"strandline {app}", **conf)
