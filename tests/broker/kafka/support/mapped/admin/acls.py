"""CreateAcls, DeleteAcls and DescribeAcls."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.acls import (
    Acl,
    AclsOfPattern,
    CreateAclsAnswer,
    CreateAclsRequest,
    DeleteAclsAnswer,
    DeleteAclsRequest,
    DeletedAcl,
    DeletedByFilter,
    DescribeAclsAnswer,
    DescribeAclsRequest,
    Entry,
    Outcome,
    Pattern,
)
from strandline.broker.kafka.wire.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def entry(of: Values, suffix: str = "") -> Entry:
    return Entry(of[f"principal{suffix}"], of[f"host{suffix}"], of["operation"], of["permission_type"])


def describe_request(asked: Values, version: int) -> DescribeAclsRequest:
    pattern = Pattern(
        asked["resource_type_filter"], asked["resource_name_filter"], asked["pattern_type_filter"]
    )
    return DescribeAclsRequest(Acl(pattern, entry(asked, "_filter")))


def outcome(found: Values) -> Outcome:
    return Outcome(found["error_code"], found["error_message"])


def pattern(of: Values, type_name: str = "pattern_type") -> Pattern:
    return Pattern(of["resource_type"], of["resource_name"], of[type_name])


def describe_answer(found: Values, version: int) -> DescribeAclsAnswer:
    return DescribeAclsAnswer(
        outcome(found),
        tuple(AclsOfPattern(pattern(each), tuple(map(entry, each["acls"]))) for each in found["resources"]),
    )


def create_request(asked: Values, version: int) -> CreateAclsRequest:
    return CreateAclsRequest(
        tuple(Acl(pattern(each, "resource_pattern_type"), entry(each)) for each in asked["creations"])
    )


def create_answer(found: Values, version: int) -> CreateAclsAnswer:
    return CreateAclsAnswer(tuple(map(outcome, found["results"])))


def delete_request(asked: Values, version: int) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        tuple(
            Acl(
                Pattern(
                    each["resource_type_filter"], each["resource_name_filter"], each["pattern_type_filter"]
                ),
                entry(each, "_filter"),
            )
            for each in asked["filters"]
        )
    )


def deleted(acl: Values) -> DeletedAcl:
    return DeletedAcl(outcome(acl), Acl(pattern(acl), entry(acl)))


def delete_answer(found: Values, version: int) -> DeleteAclsAnswer:
    return DeleteAclsAnswer(
        tuple(
            DeletedByFilter(
                outcome(each),
                tuple(
                    DeletedAcl(outcome(acl), Acl(pattern(acl), entry(acl))) for acl in each["matching_acls"]
                ),
            )
            for each in found["filter_results"]
        )
    )


MAPPED: Final = (
    Mapped(DESCRIBE_ACLS, describe_request, describe_answer),
    Mapped(CREATE_ACLS, create_request, create_answer),
    Mapped(DELETE_ACLS, delete_request, delete_answer),
)
