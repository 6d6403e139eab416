"""Answers DescribeAcls: tools ask for the rules of access, and take it well that there are none."""

from __future__ import annotations

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.wire.admin.acls import DescribeAclsAnswer, DescribeAclsRequest


async def describe_acls(request: DescribeAclsRequest, call: Call) -> DescribeAclsAnswer:
    return DescribeAclsAnswer(
        int(KafkaCode.SECURITY_DISABLED), "strandline has no rules of access: each client may do everything"
    )
