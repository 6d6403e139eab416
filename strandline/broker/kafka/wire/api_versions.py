"""ApiVersions: what a broker serves. The first request of most connections."""

from __future__ import annotations

from typing import NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer


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


def read_request(reader: Reader, version: int) -> ApiVersionsRequest:
    if version < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(reader.string(), reader.string())


def write_answer(writer: Writer, answer: ApiVersionsAnswer, version: int) -> None:
    def write_one(served: ServedVersions) -> None:
        writer.int16(served.api)
        writer.int16(served.first)
        writer.int16(served.last)
        writer.tags()

    writer.int16(answer.error)
    writer.array(answer.served, write_one)
    if version >= 1:
        writer.throttle_time()
    writer.tags()
