"""DescribeAcls: the rules about who may do what."""

from __future__ import annotations

from typing import NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer


class DescribeAclsRequest(NamedTuple):
    """Its filters decide nothing: there are no rules."""


class DescribeAclsAnswer(NamedTuple):
    error: int
    message: str | None


def read_request(reader: Reader, version: int) -> DescribeAclsRequest:
    reader.int8()  # resource type
    reader.nullable_string()  # resource name
    reader.int8()  # pattern type
    reader.nullable_string()  # principal
    reader.nullable_string()  # host
    reader.int8()  # operation
    reader.int8()  # permission
    return DescribeAclsRequest()


def write_answer(writer: Writer, answer: DescribeAclsAnswer, version: int) -> None:
    def write_nothing(_: object) -> None:
        raise AssertionError("there are no rules")

    writer.int32(0)  # throttle time
    writer.int16(answer.error)
    writer.string(answer.message)
    writer.array((), write_nothing)
    writer.tags()
