"""ApiVersions: what a broker serves. The first request of most connections."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import ERROR, INT16, STRING, Array, Struct, row, throttle


class ApiVersionsRequest(NamedTuple):
    """The client's software, from version 3 on; empty before."""

    software_name: str = ""
    software_version: str = ""


class ServedVersions(NamedTuple):
    """One API, and the versions of it that are served, both ends included."""

    api: int
    first: int
    last: int


class ApiVersionsAnswer(NamedTuple):
    """`error` 35: the request's version is not served, or its body is malformed. The table is there too."""

    served: tuple[ServedVersions, ...]
    error: int = 0


REQUEST: Final = Struct(
    ApiVersionsRequest,
    STRING("client_software_name", "software_name", since=3),
    STRING("client_software_version", "software_version", since=3),
)
_SERVED: Final = Struct(
    ServedVersions, INT16("api_key", "api"), INT16("min_version", "first"), INT16("max_version", "last")
)
ANSWER: Final = Struct(ApiVersionsAnswer, ERROR, row("api_keys", Array(_SERVED), "served"), throttle(since=1))
