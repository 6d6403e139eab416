"""How long a client goes on where it is refused, although it was let in before.

A password is replaced at its user before it is replaced at the client, an issuer of tokens fails for a
moment, a broker has not read the new users yet, an authority is missing in a file: each of these passes. A
client that was never let in is refused for good, as its settings are wrong.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from strandline.errors import StrandlineError
from strandline.ports import RefusedForNow

logger = logging.getLogger(__name__)

PAUSE_S: Final = 1.0
"""How long no login follows a refused one. A server delays all logins from an address that fails faster."""
_FORGOTTEN_S: Final = 60.0
"""A client that has tried nothing for this much longer than it may go on begins anew."""


@dataclass(slots=True)
class _Refused:
    since: float
    last: float
    reason: str


class Refusals:
    """Those of one client, by address. Several threads may use it. Times are monotonic seconds."""

    def __init__(self, retry_s: float) -> None:
        """`retry_s`: how long the client goes on after the first refusal."""
        self._retry_s = retry_s
        self._was_let_in = False
        self._refused: dict[str, _Refused] = {}
        self._changing = threading.Lock()

    @contextmanager
    def login(self, address: str, monotonic: Callable[[], float]) -> Iterator[None]:
        """For the time of one login. Raises RefusedForNow while none may follow a refused one, and in place
        of a refusal that is not final."""
        if (pause := self.pause(address, monotonic())) is not None:
            raise pause
        try:
            yield
        except StrandlineError as error:
            failure = self.judged(address, error, monotonic())
            if failure is error:
                raise
            raise failure from error
        self.let_in(address)

    def let_in(self, address: str) -> None:
        """The server knows the client."""
        with self._changing:
            self._was_let_in = True
            self._refused.pop(address, None)

    def judged(self, address: str, error: StrandlineError, now: float) -> StrandlineError:
        """The error for those who called, after the server refused the client: `error` if that is final,
        RefusedForNow if not."""
        if error.retriable:
            return error
        with self._changing:
            known = self._refused.get(address)
            is_first = known is None or now - known.last > self._retry_s + _FORGOTTEN_S
            since = now if known is None or is_first else known.since
            self._refused[address] = _Refused(since, now, error.message)
            if not self._was_let_in or now - since >= self._retry_s:
                return error
        if is_first:
            logger.warning(
                "refused, though not before: trying again for %.0f s: %s", self._retry_s, error.message
            )
        return _for_now(error.message)

    def pause(self, address: str, now: float) -> RefusedForNow | None:
        """Not None while no other login may follow a refused one."""
        with self._changing:
            known = self._refused.get(address)
            if known is None or not self._was_let_in or now - known.last >= min(PAUSE_S, self._retry_s):
                return None
            return _for_now(known.reason)


def _for_now(reason: str) -> RefusedForNow:
    return RefusedForNow(f"{reason} (it was let in before, so it tries again)")
