"""The server's end of a call, for every kind of listener: decode, handle, encode, refuse.

A listener brings bytes here and takes bytes away. It sends what `refusal` returns as the answer; if that is
None, it ends the call with the error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from strandline.adapters.rpc.request_parsing import MalformedRequest
from strandline.adapters.system.fail_fast import defect_in, report
from strandline.errors import AuthenticationFailed, IllegalSaslState, StrandlineError
from strandline.ports import Caller, Listener, Rpc, Served, ServedCall, ServedStream
from strandline.security.calls import RPCS
from strandline.security.login.sessions import check_session
from strandline.tasks import contained

OnAnswered = Callable[[str, float], None]
"""Called with the name of a call and its duration in milliseconds."""
OnRefused = Callable[[StrandlineError, str], None]
"""Called with an error that a caller got, and the caller's connection."""


_OWN: Final = "/strandline."
"""Paths of strandline's services begin with it; tests serve others."""


def check_rows(served: Iterable[Served]) -> None:
    """Raises LookupError for a call that has no row: it would be open to every caller."""
    for each in served:
        if each.rpc.path.startswith(_OWN) and each.rpc.path not in RPCS:
            raise LookupError(f"{each.rpc.path} has no row in strandline/security/calls.py: who may call it?")


async def serve_call(
    served: ServedCall[Any, Any],
    data: bytes,
    caller: Caller,
    monotonic: Callable[[], float],
    on_answered: OnAnswered,
) -> bytes:
    """The answer to one request. Raises a StrandlineError to be refused."""
    rpc, began = served.rpc, monotonic()

    async def work() -> bytes:
        request = rpc.decode(data)
        try:
            return rpc.encode(await served.handle(request, caller), caller.listener)
        finally:
            on_answered(rpc.path.rpartition("/")[2], (monotonic() - began) * 1000)

    with _defects_reported(rpc):
        return await (work() if served.around is None else served.around(caller, work))


async def serve_stream(
    served: ServedStream[Any, Any],
    requests: AsyncIterator[bytes],
    write: Callable[[bytes], Awaitable[None]],
    caller: Caller,
    monotonic: Callable[[], float],
) -> None:
    """Serves a stream to its end. Raises a StrandlineError to be refused: AuthenticationFailed if the session
    of the caller has ended meanwhile."""
    rpc = served.rpc

    def check() -> None:
        check_session(caller.expires_at, monotonic())

    async def reply(value: Any) -> None:
        if served.pushes:
            check()
        await write(rpc.encode(value, caller.listener))

    refused: StrandlineError | None = None
    decoded = _Decoded(rpc, requests, check)
    with _defects_reported(rpc):
        try:
            await contained(served.handle(decoded, reply, caller))
            refused = decoded.refused
        except* StrandlineError as group:
            refused = _first(group)
    if refused is not None:  # not in `except*`: what is raised there leaves as a group
        raise refused


def refusal(rpc: Rpc[Any, Any], error: StrandlineError, to: Listener) -> bytes | None:
    """The answer that carries the error; None: no answer of this call can, or the caller has to log in."""
    malformed = isinstance(error, MalformedRequest)
    if rpc.refuse is None or (malformed and not rpc.refuses_malformed):
        return None
    if isinstance(error, AuthenticationFailed | IllegalSaslState):
        return None
    return rpc.refuse(error, to)


class _Decoded:
    """The requests of a stream, until `check` refuses one. Those before it are served to their end. Not a
    generator: nothing needs to close it."""

    def __init__(self, rpc: Rpc[Any, Any], requests: AsyncIterator[bytes], check: Callable[[], None]) -> None:
        self.refused: StrandlineError | None = None
        self._decode = rpc.decode
        self._requests = requests
        self._check = check

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        data = await anext(self._requests)
        try:
            self._check()
        except StrandlineError as error:
            self.refused = error
            raise StopAsyncIteration from None
        return self._decode(data)


@contextmanager
def _defects_reported(rpc: Rpc[Any, Any]) -> Iterator[None]:
    """A listener only logs what a handler raises, and keeps serving. A defect must end the process."""
    try:
        yield
    except Exception as error:
        if defect_in(error) is not None:
            report(error, f"call {rpc.path}")
        raise


def _first(group: BaseExceptionGroup[StrandlineError]) -> StrandlineError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
