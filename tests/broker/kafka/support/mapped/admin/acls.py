"""DescribeAcls."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.acls import DescribeAclsAnswer, DescribeAclsRequest
from strandline.broker.kafka.wire.apis import DESCRIBE_ACLS
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def request(asked: Values, version: int) -> DescribeAclsRequest:
    return DescribeAclsRequest()


def answer(found: Values, version: int) -> DescribeAclsAnswer:
    return DescribeAclsAnswer(found["error_code"], found["error_message"])


MAPPED: Final = (Mapped(DESCRIBE_ACLS, request, answer, {"resources": []}),)
