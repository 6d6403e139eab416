"""The table of the APIs that are served, and how a frame becomes a request of one of them.

ApiVersions stands for itself (`routing/introduction.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from strandline.broker.kafka.call import Api
from strandline.broker.kafka.routing.introduction import Introduction, Place, introduction
from strandline.broker.kafka.routing.unserved import unserved_api, unserved_version
from strandline.broker.kafka.wire.api_versions import LAST, ServedVersions
from strandline.broker.kafka.wire.apis import SASL_AUTHENTICATE
from strandline.broker.kafka.wire.fields import MalformedRequest, Part, Reader, Steps, Writer
from strandline.broker.kafka.wire.header import API_VERSIONS, RequestHeader, frame, read_header
from strandline.broker.kafka.wire.sasl import bare_frame, read_bare
from strandline.security.calls import KAFKA_APIS
from strandline.tasks import Slices


@dataclass(frozen=True, slots=True)
class Asked:
    """Which API a request asks, in which version. It has nothing of the request's body."""

    api: Api[Any, Any]
    header: RequestHeader
    bare: bool = False
    """True for a message of a login without a header: so is its answer."""

    def answer(self, value: Any, throttle_ms: int = 0) -> list[Part]:
        """The answer as a whole frame. It says how long the client waits for its quota."""
        body, steps = self._begun(value, throttle_ms)
        for _ in steps:
            pass
        return self._frame(body, value)

    async def answer_in_slices(self, value: Any, slices: Slices, throttle_ms: int = 0) -> list[Part]:
        """The same, with pauses for other work if it is large."""
        body, steps = self._begun(value, throttle_ms)
        for _ in steps:
            if slices.used_up:
                await slices.next()
        return self._frame(body, value)

    def _frame(self, body: Writer, value: Any) -> list[Part]:
        return bare_frame(value) if self.bare else frame(self.header, body)

    def _begun(self, value: Any, throttle_ms: int) -> tuple[Writer, Steps]:
        version = self.header.version
        body = Writer(flexible=self.api.wire.flexible(version), throttle_ms=throttle_ms)
        return body, self.api.wire.write(body, value, version) or iter(())


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as it arrived. Its value may hold parts of the frame."""

    asked: Asked
    value: Any


class Router:
    """The served APIs of one broker."""

    def __init__(
        self, apis: Iterable[Api[Any, Any]], here: Callable[[], Place | None] = lambda: None
    ) -> None:
        """`here`: which broker this is, or None before it knows its cluster. Raises LookupError for an API
        without a row: it would be open to every caller."""
        apis = tuple(apis)
        for api in apis:
            if api.wire.name not in KAFKA_APIS:
                raise LookupError(f"{api.wire.name} has no row in strandline/security/calls.py")
        self._apis = {api.wire.key: api for api in apis}
        own = ServedVersions(API_VERSIONS, 0, LAST)
        wires = (api.wire for api in self._apis.values())
        served = [ServedVersions(wire.key, wire.first, wire.last) for wire in wires]
        self._here = here
        self.served = tuple(sorted([*served, own]))

    def read(self, data: Part, permits: Callable[[int], bool] = lambda _: True) -> Arrived | Introduction:
        """Decodes a frame. Raises MalformedRequest, also for an API that may not be asked now, and
        UnservedRequest: nothing of the body is looked at then."""
        reader = Reader(data)
        header = read_header(reader)
        if not permits(header.api):
            raise MalformedRequest(f"API {header.api} before a login, or after its end")
        if header.api == API_VERSIONS:
            return introduction(reader, header, self.served, self._here())
        api = self._apis.get(header.api)
        if api is None:
            raise unserved_api(header.api)
        wire, version = api.wire, header.version
        if not wire.first <= version <= wire.last:
            raise unserved_version(wire.name, version, wire.first, wire.last)
        reader.flexible = wire.flexible(version)
        try:
            reader.tags()
            return Arrived(Asked(api, header), wire.read(reader, version))
        except MalformedRequest as error:
            raise MalformedRequest(f"{wire.name} version {version}: {error.message}") from None

    def read_bare(self, data: Part) -> Arrived:
        """A message of a login that began with version 0 of SaslHandshake. Raises MalformedRequest."""
        header = RequestHeader(SASL_AUTHENTICATE.key, 0, 0, "")
        return Arrived(Asked(self._apis[header.api], header, bare=True), read_bare(data))
