"""The server's end of a call, for every kind of listener: decode, handle, encode, refuse.

A listener brings bytes here and takes bytes away. It sends what `refusal` returns as the answer; if that is
None, it ends the call with the error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from strandline.adapters.rpc.request_parsing import MalformedRequest
from strandline.adapters.system.fail_fast import defect_in, report
from strandline.errors import StrandlineError
from strandline.ports import Caller, Listener, Rpc, ServedCall, ServedStream
from strandline.tasks import contained

OnAnswered = Callable[[str, float], None]
"""Called with the name of a call and its duration in milliseconds."""
OnRefused = Callable[[StrandlineError, str], None]
"""Called with an error that a caller got, and the caller's connection."""


async def serve_call(
    served: ServedCall[Any, Any],
    data: bytes,
    caller: Caller,
    monotonic: Callable[[], float],
    on_answered: OnAnswered,
) -> bytes:
    """The answer to one request. Raises a StrandlineError to be refused."""
    rpc, began = served.rpc, monotonic()
    with _defects_reported(rpc):
        request = rpc.decode(data)
        try:
            return rpc.encode(await served.handle(request, caller), caller.listener)
        finally:
            on_answered(rpc.path.rpartition("/")[2], (monotonic() - began) * 1000)


async def serve_stream(
    served: ServedStream[Any, Any],
    requests: AsyncIterator[bytes],
    write: Callable[[bytes], Awaitable[None]],
    caller: Caller,
) -> None:
    """Serves a stream to its end. Raises a StrandlineError to be refused."""
    rpc = served.rpc

    async def reply(value: Any) -> None:
        await write(rpc.encode(value, caller.listener))

    refused: StrandlineError | None = None
    with _defects_reported(rpc):
        try:
            await contained(served.handle(_Decoded(rpc, requests), reply, caller))
        except* StrandlineError as group:
            refused = _first(group)
    if refused is not None:  # not in `except*`: what is raised there leaves as a group
        raise refused


def refusal(rpc: Rpc[Any, Any], error: StrandlineError, to: Listener) -> bytes | None:
    """The answer that carries the error; None: no answer of this call can."""
    malformed = isinstance(error, MalformedRequest)
    if rpc.refuse is None or (malformed and not rpc.refuses_malformed):
        return None
    return rpc.refuse(error, to)


class _Decoded:
    """The requests of a stream. Not a generator: nothing needs to close it."""

    def __init__(self, rpc: Rpc[Any, Any], requests: AsyncIterator[bytes]) -> None:
        self._decode = rpc.decode
        self._requests = requests

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        return self._decode(await anext(self._requests))


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
