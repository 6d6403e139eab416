"""`strandline console`: serves a web page beside a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from strandline.cli.shell.command import Command, Invocation, pass_invocation
from strandline.config.limits import CONSOLE_LISTEN

TOKEN_BYTES: Final = 24


@click.command(cls=Command)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Address for browsers; default: {CONSOLE_LISTEN}. Port 0: any free one.",
)
@click.option("--allow-changes", is_flag=True, default=None, help="Let the pages change the cluster.")
@click.option(
    "--login", is_flag=True, default=None,
    help="Have browsers log in as users of the cluster; its ACLs decide what each may see and do.",
)  # fmt: skip
@click.option(
    "--token-file", type=click.Path(dir_okay=False, path_type=Path),
    help="File with a secret that a browser has to give once; made if it is missing.",
)  # fmt: skip
@click.option(
    "--run", "runs", multiple=True, type=click.Path(path_type=Path), metavar="FOLDER",
    help="Show a chaos round or simulation run, or those in a folder, instead of a cluster; repeatable.",
)  # fmt: skip
@pass_invocation
def console(
    invocation: Invocation,
    listen: str | None,
    allow_changes: bool | None,
    login: bool | None,
    token_file: Path | None,
    runs: tuple[Path, ...],
) -> None:
    """Serve a web page that shows the cluster, until Ctrl-C; or, with --run, what happened in runs.

    On an address that other machines reach it begins only with --login, --token-file, or certificates of
    browsers. It changes nothing without --allow-changes. The page needs `pip install 'strandline[console]'`.
    """
    import asyncio
    import secrets

    import uvloop

    from strandline.adapters.service_host import stop_on_signals
    from strandline.adapters.system.unknown_settings import warn_of_unknown_names
    from strandline.adapters.telemetry.logs import configure_logging
    from strandline.config.console import ConsoleSettings
    from strandline.config.load import load
    from strandline.errors import SettingsError
    from strandline.local.layout import write_secret_once

    try:
        from strandline.console.process import serve
        from strandline.console.runs_process import serve_runs
        from strandline.console.web.admins import Connection
    except ModuleNotFoundError as error:
        raise SettingsError(f"the console needs pip install 'strandline[console]' ({error})") from None

    given: dict[str, Any] = {"log_format": "console"} if invocation.debug else {}
    settings = load(
        ConsoleSettings,
        listen=listen,
        allow_changes=allow_changes,
        login=login,
        token_file=token_file,
        **given,
    )
    configure_logging(settings)
    warn_of_unknown_names()
    if settings.token_file is not None:
        write_secret_once(settings.token_file, f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")

    def ready(address: str) -> None:
        if invocation.out.json:
            invocation.out.emit({"address": address}, flush=True)
        else:
            click.echo(f"the console is at {address}")

    async def main() -> None:
        stop = asyncio.Event()
        stop_on_signals(stop)
        if runs:
            await serve_runs(settings, runs, stop, ready)
            return
        connection = Connection(invocation.bootstrap_servers(), invocation.client_settings())
        await serve(settings, connection, stop, ready)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
