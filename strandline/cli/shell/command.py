"""Shared by all commands: the common options, the choice of the cluster, and the exit status.

Exit status: 0 only on success, 1 for a failure, 2 for wrong usage and for what the `pipeline` commands,
`chaos` and `simulate` find, 130 after Ctrl-C. A failure prints one sentence on standard error; `--debug` adds
the traceback.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click

from strandline.adapters.system.standard_streams import open_standard_streams
from strandline.adapters.telemetry.terminal import printable
from strandline.cli.shell.output import Output
from strandline.client.waits import WAITS_LOGGER
from strandline.errors import SettingsError, StrandlineError

T = TypeVar("T")

FAILED: Final = 1
INTERRUPTED: Final = 130

DEFAULT_DIRECTORY: Final = Path(".strandline")


@dataclass(slots=True)
class Invocation:
    """The common options of a command."""

    bootstrap: str | None = None
    dir: Path | None = None
    command_config: Path | None = None
    debug: bool = False
    out: Output = field(default_factory=Output)

    @property
    def directory(self) -> Path:
        """The folder of the local cluster."""
        return self.dir or Path(os.environ.get("STRANDLINE_DIR") or DEFAULT_DIRECTORY)

    def named_bootstrap(self) -> str | None:
        """The brokers that the user named; None for the local cluster.

        A --dir on the command line overrides a variable set earlier.
        """
        if self.bootstrap is not None or self.dir is not None:
            return self.bootstrap
        return os.environ.get("STRANDLINE_BOOTSTRAP") or None

    def bootstrap_servers(self) -> str:
        """The brokers to ask, `host:port,…`. Raises SettingsError if there is no cluster."""
        named = self.named_bootstrap()
        if named is not None:
            return named
        from strandline.local.cluster import LocalCluster

        directory = self.directory
        if not directory.exists():
            raise SettingsError(
                f"there is no cluster in {directory}: start one with `strandline up`, "
                "or name its brokers with --bootstrap host:port"
            )
        cluster = LocalCluster.open(directory)
        if not any(member.alive for member in cluster.members() if member.kind == "broker"):
            raise SettingsError(
                f"no broker runs in {directory}: `strandline up` starts the missing processes"
            )
        return cluster.bootstrap

    def client_settings(self) -> dict[str, Any]:
        """The settings of the command's clients for their connections: those of the file that
        --command-config or STRANDLINE_CLIENT_CONFIG names, else those of a secure local cluster.

        Raises SettingsError.
        """
        path = self.command_config or os.environ.get("STRANDLINE_CLIENT_CONFIG")
        if path:
            return read_client_settings(Path(path))
        if self.named_bootstrap() is not None or not self.directory.exists():
            return {}
        from strandline.local.cluster import LocalCluster

        return LocalCluster.open(self.directory).client_settings


def read_client_settings(path: Path) -> dict[str, Any]:
    """The settings in a TOML file of a client. Raises SettingsError, also for a password that other users may
    read."""
    import tomllib

    from strandline.adapters.system.secret_file import refuse_readable_by_others

    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"settings file '{path}': {error}") from error
    if "sasl_password" in settings:
        refuse_readable_by_others("settings file with sasl_password", path)
    return settings


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keeps a common option, at any place on the line."""
    if value is None or value is False:
        return
    _refuse_bytes(context, parameter, value)
    invocation = context.ensure_object(Invocation)
    if parameter.name == "output":
        invocation.out.json = value == "json"
    else:
        setattr(invocation, str(parameter.name), value)


def _refuse_bytes(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Refuses names and texts that are not UTF-8: Python passes other bytes of argv as surrogates, which
    cannot be encoded again. Paths may be any bytes. Raises click.BadParameter."""
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise click.BadParameter(f"{value!r} is not UTF-8", context, parameter) from None
        case dict():
            _refuse_bytes(context, parameter, [*value, *value.values()])
        case list() | tuple():
            for each in value:
                _refuse_bytes(context, parameter, each)


def _common_options() -> list[click.Parameter]:
    def option(*names: str, **attributes: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_remember, **attributes)

    return [
        option("-o", "--output", type=click.Choice(["text", "json"]), help="json: one object a line."),
        option("--bootstrap", metavar="HOST:PORT,…", help="Brokers to ask; default: the local cluster."),
        option(
            "--dir",
            type=click.Path(file_okay=False, path_type=Path),
            help=f"Folder of the local cluster; default: {DEFAULT_DIRECTORY}.",
        ),
        option(
            "--command-config",
            type=click.Path(dir_okay=False, path_type=Path),
            help="TOML file with the settings of the command's clients; default: those of the local cluster.",
        ),
        option("--debug", is_flag=True, help="Show the traceback of a failure."),
    ]


class Remark(logging.Formatter):
    """Formats only the message, fit for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(record.getMessage())


class Command(click.Command):
    """A command that also takes the common options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the command's own arguments."""
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            _refuse_bytes(ctx, parameter, ctx.params.get(str(parameter.name)))
        return rest


class Group(click.Group):
    """A family of commands."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, moved: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        """`moved`: commands that this family had before, each with the one to use now."""
        super().__init__(*args, **kwargs)
        self._moved = moved or {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command. Raises click.UsageError for one that is not there, or has moved."""
        if args and (now := self._moved.get(args[0])) is not None:
            raise click.UsageError(f"'{ctx.command_path} {args[0]}' has moved: use '{now}'", ctx)
        return super().resolve_command(ctx, args)


class Root(Group):
    """The whole command line: turns every error into an exit status and at most one sentence."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. Raises click.Abort after Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                click.echo(err=True)  # the terminal shows ^C
            raise click.Abort from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *_: Any,
        **__: Any,
    ) -> NoReturn:
        """Runs the command line, and exits."""
        invocation = Invocation()
        try:
            status = super().main(args, prog_name or self.name, standalone_mode=False, obj=invocation)
            sys.stdout.flush()
        except BaseException as error:
            status = _explain(error, debug=invocation.debug)
            _flush_or_drop()
        sys.exit(status if isinstance(status, int) else 0)


def start(root: Root) -> NoReturn:
    """Runs a whole command line and exits with its status."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's C core prints lines that are not for users
    open_standard_streams()
    root.main()


def _explain(error: BaseException, *, debug: bool) -> int:
    """Prints the error on standard error, and returns the exit status."""
    if debug and not isinstance(error, click.ClickException | click.Abort | SystemExit):
        traceback.print_exception(error)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case SystemExit(code=code):
            return code if isinstance(code, int) else FAILED
        case click.ClickException():
            error.show()
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            click.echo("interrupted", err=True)
            return INTERRUPTED
        case BrokenPipeError():
            return FAILED  # the reader has gone (`| head`), and knows
        case StrandlineError() | OSError():
            click.echo(f"error: {printable(str(error))}", err=True)
            return FAILED
        case _:
            said = f"{type(error).__name__}: {printable(str(error))}"
            click.echo(f"error: {said} (a bug in strandline; --debug shows where)", err=True)
            return FAILED


def _flush_or_drop() -> None:
    """Writes what a failed command has buffered, and drops what cannot be written: the interpreter would
    report it again at exit."""
    try:
        sys.stdout.flush()
    except (OSError, KeyboardInterrupt):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_waits() -> None:
    """Shows what a client waits for while it waits, and not only in the error at the end."""
    handler = logging.StreamHandler()
    handler.setFormatter(Remark())
    logger = logging.getLogger(WAITS_LOGGER)
    logger.handlers[:] = [handler]
    logger.setLevel(logging.WARNING)
    logger.propagate = False


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs an asynchronous command under uvloop. Ctrl-C cancels it, then raises KeyboardInterrupt.

    The clients' own log lines go to standard error: errors, and with --debug all of them.
    """
    import asyncio

    import uvloop

    from strandline.adapters.telemetry.logs import configure_logging
    from strandline.config.load import load
    from strandline.config.services.zookeeper import ZooKeeperSettings

    invocation = click.get_current_context().find_object(Invocation)
    level = "debug" if invocation is not None and invocation.debug else "error"
    configure_logging(load(ZooKeeperSettings, log_format="console", log_level=level))
    _show_waits()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())
