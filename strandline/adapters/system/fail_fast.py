"""The end of a process that met a defect: it says what it met, leaves the cluster, and stops at once.

A defect is a broken invariant: what the process believes of itself is wrong, so nothing that it says from
then on can be relied on (seed 002, goal 2). All of them arrive at the event loop's exception handler: what a
callback, a timer or a lost future raises comes there by itself, `report` brings the rest.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError

from strandline.errors import StrandlineError

logger = structlog.get_logger(__name__)

DEFECT_STATUS: Final = 70
"""Exit status of a process that met a defect (EX_SOFTWARE of sysexits.h)."""

WITHDRAW_S_MAX: Final = 1.5
"""How long the end may wait until the ZooKeeper session is closed. Peers notice a closed port anyway."""

NO_DEFECTS: Final = (
    StrandlineError,  # an expected failure: it has a type, and somebody to answer it
    OSError,  # the system's, or the peer's
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


def report(error: BaseException, where: str) -> None:
    """Hand an exception that nobody else will see to the running loop's exception handler."""
    asyncio.get_running_loop().call_exception_handler({"message": where, "exception": error})


class FailFast:
    """Ends this process at its first defect.

    `withdraw` closes the ZooKeeper session and may block. It runs while the event loop stands still: after a
    defect nothing is acknowledged any more, and the registration goes before the process does.
    """

    def __init__(self, withdraw: Callable[[], None]) -> None:
        self._withdraw = withdraw

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take every defect of this loop, and of every thread of the process."""
        loop.set_exception_handler(self._heard)

        def heard_in_thread(args: threading.ExceptHookArgs) -> None:
            error = args.exc_value
            if error is None or (defect := defect_in(error)) is None:
                threading.__excepthook__(args)
                return
            where = "thread" if args.thread is None else f"thread {args.thread.name}"
            if loop.is_closed():
                self.end(defect, where)
            loop.call_soon_threadsafe(self.end, defect, where)

        threading.excepthook = heard_in_thread

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        defect = None if error is None else defect_in(error)
        if defect is not None:
            self.end(defect, str(context.get("message")))
        loop.default_exception_handler(context)

    def end(self, error: BaseException, where: str) -> NoReturn:
        """Log, withdraw, and exit with `DEFECT_STATUS`. No task is unwound, no file is closed cleanly."""
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
        except Exception as error:  # the process ends now, with or without this
            logger.error("the session was not closed", error=repr(error))
