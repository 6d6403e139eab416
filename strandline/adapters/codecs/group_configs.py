"""The RPCs of `strandline.v1.Admin` about configs of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.adapters.codecs.messages import ERROR, Call, at_most, call, many, only, scalars, shape
from strandline.config.limits import GROUP_CONFIGS_PER_REQUEST_MAX
from strandline.rpc import group_config_pb2
from strandline.vocabulary.configs.groups import (
    AlterGroupConfigs,
    GroupConfigAlteration,
    GroupConfigResult,
    GroupConfigs,
)

_ALTERATIONS: Final = many(
    shape(group_config_pb2.GroupConfigAlteration, GroupConfigAlteration),
    at_most(GROUP_CONFIGS_PER_REQUEST_MAX, "groups"),
)

ALTER_GROUP_CONFIGS: Final[Call[AlterGroupConfigs, Sequence[GroupConfigResult]]] = call(
    "/strandline.v1.Admin/AlterGroupConfigs",
    shape(group_config_pb2.AlterGroupConfigsRequest, AlterGroupConfigs, alterations=_ALTERATIONS),
    only(
        group_config_pb2.AlterGroupConfigsResponse,
        "results",
        many(shape(group_config_pb2.GroupConfigResult, GroupConfigResult, error=ERROR)),
    ),
)
DESCRIBE_GROUP_CONFIGS: Final[Call[Sequence[str], Sequence[GroupConfigs]]] = call(
    "/strandline.v1.Admin/DescribeGroupConfigs",
    only(
        group_config_pb2.DescribeGroupConfigsRequest,
        "groups",
        scalars(at_most(GROUP_CONFIGS_PER_REQUEST_MAX, "groups")),
    ),
    only(
        group_config_pb2.DescribeGroupConfigsResponse,
        "groups",
        many(shape(group_config_pb2.GroupConfigs, GroupConfigs, error=ERROR)),
    ),
)
