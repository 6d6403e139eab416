"""Logging: structlog's events and the standard library's records, one line each, as JSON or for a console."""

from __future__ import annotations

import logging
import sys
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict, Processor

from strandline.adapters.telemetry.terminal import printable
from strandline.config.services.zookeeper import ServiceSettings

_QUIET: Final = ("grpc", "asyncio")
"""Libraries whose warnings repeat strandline's own events in less detail: only their errors are logged."""

_GRPC_CORE: Final = "grpc._cython.cygrpc"
_OF_CALLERS: Final = ("Invalid encoding", "ExecuteBatchError raised in core")
"""How gRPC's lines begin that tell, with a traceback, of a caller that sent such headers, or that did not
wait for its answer."""


def configure_logging(settings: ServiceSettings, *, stream: TextIO | None = None) -> None:
    """Set up logging for this process from `log_format` and `log_level`; lines go to standard
    error.

    Every line has `timestamp` (UTC, ISO 8601), `level`, `event`, and further fields.
    """
    output = stream if stream is not None else sys.stderr
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last = _renderer(settings.log_format, output)
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(output),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*first, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger(_GRPC_CORE).addFilter(_of_own_process)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.ERROR))


def _renderer(log_format: str, output: TextIO) -> list[Processor]:
    """Tracebacks omit the values of local variables, which may contain users' records."""
    if log_format == "console":
        return [
            _fit_for_terminal,
            structlog.dev.ConsoleRenderer(
                colors=output.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]


def _of_own_process(record: logging.LogRecord) -> bool:
    """Any caller could fill the disk with the others."""
    return not str(record.msg).startswith(_OF_CALLERS)


def _fit_for_terminal(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escapes names and reasons from outside, so that they cannot control the terminal."""
    shown = {
        key: printable(value) for key, value in event.items() if type(value) is str and key != "exception"
    }
    event.update(shown)
    return event
