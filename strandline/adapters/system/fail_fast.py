"""Ends a process at its first defect: it logs the defect, leaves the cluster, and exits at once.

A defect is a broken invariant: the state of the process is wrong, so none of its later answers can
be relied on (Kafka's design V2, goal 2). All defects reach the event loop's exception handler: exceptions of
callbacks, timers and lost futures by themselves, all others by `report`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError

from strandline.errors import StrandlineError

logger = structlog.get_logger(__name__)

DEFECT_STATUS: Final = 70
"""Exit status of a process that met a defect (EX_SOFTWARE of sysexits.h)."""

WITHDRAW_S_MAX: Final = 1.5
"""How long the exit may wait for the end of the ZooKeeper session. Peers notice the closed port anyway."""

_OF_TLS: Final = "Fatal error on SSL protocol"
_HANDLE_CLOSED: Final = "the handler is closed"
"""How uvloop says these two."""

NO_DEFECTS: Final = (
    StrandlineError,  # an expected failure: it has a type, and a caller that handles it
    OSError,  # from the system, or the peer
    grpc.RpcError,
    grpc.aio.BaseError,  # the peer hung up, or the call was aborted
    DecodeError,  # bytes that are no message
)


def defect_in(error: BaseException) -> Exception | None:
    """The first defect in an exception, or in a group of them; None if there is none."""
    if isinstance(error, BaseExceptionGroup):
        found = (defect_in(each) for each in error.exceptions)
        return next((each for each in found if each is not None), None)
    return error if isinstance(error, Exception) and not isinstance(error, NO_DEFECTS) else None


def defect_told(context: Mapping[str, Any]) -> Exception | None:
    """The defect in what an event loop tells its exception handler."""
    error = context.get("exception")
    return None if error is None or tells_of_end(context) else defect_in(error)


def tells_of_end(context: Mapping[str, Any]) -> bool:
    """Whether a loop tells only that an encrypted connection has ended.

    If a peer ends a connection while uvloop is to write to it what TLS wants to say, the write raises
    RuntimeError. The loop has closed that connection then, and told its protocol.
    """
    error = context.get("exception")
    of_connection = isinstance(error, RuntimeError) and _HANDLE_CLOSED in str(error)
    return of_connection and context.get("message") == _OF_TLS


def report(error: BaseException, where: str) -> None:
    """Pass an exception that no caller will see to the running loop's exception handler."""
    asyncio.get_running_loop().call_exception_handler({"message": where, "exception": error})


class FailFast:
    """Ends this process at its first defect.

    `withdraw` closes the ZooKeeper session and may block. It runs while the event loop is blocked:
    nothing is acknowledged after a defect, and the registration is removed before the process
    exits.
    """

    def __init__(self, withdraw: Callable[[], None]) -> None:
        self._withdraw = withdraw

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle every defect of this loop, and of every thread of the process."""
        loop.set_exception_handler(self._on_loop_exception)

        def on_thread_exception(args: threading.ExceptHookArgs) -> None:
            error = args.exc_value
            if error is None or (defect := defect_in(error)) is None:
                threading.__excepthook__(args)
                return
            where = "thread" if args.thread is None else f"thread {args.thread.name}"
            if loop.is_closed():
                self.end(defect, where)
            loop.call_soon_threadsafe(self.end, defect, where)

        threading.excepthook = on_thread_exception

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        defect = defect_told(context)
        if defect is not None:
            self.end(defect, str(context.get("message")))
        if not tells_of_end(context):
            loop.default_exception_handler(context)

    def end(self, error: BaseException, where: str) -> NoReturn:
        """Log, withdraw, and exit with `DEFECT_STATUS`. No task is unwound, and no file is closed cleanly."""
        logger.critical(
            "defect: this process ends, so that others take over",
            where=where,
            error=repr(error),
            exc_info=error,
        )
        leaving = threading.Thread(target=self._leave, name="withdraw", daemon=True)
        leaving.start()
        leaving.join(WITHDRAW_S_MAX)
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(DEFECT_STATUS)

    def _leave(self) -> None:
        try:
            self._withdraw()
        except Exception as error:  # the process ends now in any case
            logger.error("the session was not closed", error=repr(error))
