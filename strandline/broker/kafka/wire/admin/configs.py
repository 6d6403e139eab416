"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BOOL,
    ERROR,
    INT8,
    MESSAGE,
    STRING,
    Array,
    Struct,
    constant,
    inline,
    row,
    throttle,
)

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
"""Types of resources."""

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
"""Operations of IncrementalAlterConfigs."""

TOPIC_OWN: Final = 1
BROKER_FILE: Final = 4
DEFAULT_VALUE: Final = 5
LOGGER: Final = 6
GROUP_OWN: Final = 8
"""Sources of values: the topic's own config, the broker's settings, the default, the level of a logger, the
group's own config."""


class Resource(NamedTuple):
    kind: int
    name: str


class ResourceOutcome(NamedTuple):
    resource: Resource
    error: int = 0
    message: str | None = None


class AlterAnswer(NamedTuple):
    """Of both requests that alter configs."""

    outcomes: tuple[ResourceOutcome, ...]


_RESOURCE: Final = inline(
    "resource", Struct(Resource, INT8("resource_type", "kind"), STRING("resource_name", "name"))
)
_OUTCOME: Final = Struct(ResourceOutcome, ERROR, MESSAGE, _RESOURCE)
ALTER_ANSWER: Final = Struct(AlterAnswer, throttle(), row("responses", Array(_OUTCOME), "outcomes"))


# --- DescribeConfigs --------------------------------------------------------------------------


class WantedConfigs(NamedTuple):
    """`names` None: all."""

    resource: Resource
    names: tuple[str, ...] | None


class DescribeConfigsRequest(NamedTuple):
    resources: tuple[WantedConfigs, ...]
    synonyms: bool = False
    documentation: bool = False


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


class DescribedConfig(NamedTuple):
    """`kind`: the number of the value's type."""

    name: str
    value: str | None
    read_only: bool
    source: int
    synonyms: tuple[Synonym, ...] = ()
    kind: int = 0
    documentation: str | None = None


class DescribedResource(NamedTuple):
    resource: Resource
    error: int = 0
    message: str | None = ""
    configs: tuple[DescribedConfig, ...] = ()


class DescribeConfigsAnswer(NamedTuple):
    resources: tuple[DescribedResource, ...]


_WANTED: Final = Struct(
    WantedConfigs, _RESOURCE, row("configuration_keys", Array(STRING), "names", nullable=0)
)
DESCRIBE_REQUEST: Final = Struct(
    DescribeConfigsRequest,
    row("resources", Array(_WANTED)),
    BOOL("include_synonyms", "synonyms"),
    BOOL("include_documentation", "documentation", since=3),
)
_SYNONYM: Final = Struct(Synonym, STRING("name"), STRING("value", nullable=0), INT8("source"))
_CONFIG: Final = Struct(
    DescribedConfig,
    STRING("name"),
    STRING("value", nullable=0),
    BOOL("read_only"),
    INT8("config_source", "source"),
    constant("is_sensitive", BOOL, False),  # no config here is a secret
    row("synonyms", Array(_SYNONYM)),
    INT8("config_type", "kind", since=3),
    STRING("documentation", since=3, nullable=3),
)
_DESCRIBED: Final = Struct(
    DescribedResource, ERROR, MESSAGE, _RESOURCE, row("configs", Array(_CONFIG, large=True))
)
DESCRIBE_ANSWER: Final = Struct(
    DescribeConfigsAnswer, throttle(), row("results", Array(_DESCRIBED), "resources")
)


# --- AlterConfigs -----------------------------------------------------------------------------


class GivenConfig(NamedTuple):
    name: str
    value: str | None


class ResourceConfigs(NamedTuple):
    """All configs that the resource shall have."""

    resource: Resource
    configs: tuple[GivenConfig, ...]


class AlterConfigsRequest(NamedTuple):
    resources: tuple[ResourceConfigs, ...]
    validate_only: bool


GIVEN_CONFIG: Final = Struct(GivenConfig, STRING("name"), STRING("value", nullable=0))
_GIVEN: Final = Struct(ResourceConfigs, _RESOURCE, row("configs", Array(GIVEN_CONFIG)))
ALTER_REQUEST: Final = Struct(AlterConfigsRequest, row("resources", Array(_GIVEN)), BOOL("validate_only"))


# --- IncrementalAlterConfigs ------------------------------------------------------------------


class ConfigChange(NamedTuple):
    name: str
    operation: int
    value: str | None


class ResourceChanges(NamedTuple):
    resource: Resource
    changes: tuple[ConfigChange, ...]


class IncrementalAlterConfigsRequest(NamedTuple):
    resources: tuple[ResourceChanges, ...]
    validate_only: bool


_CHANGE: Final = Struct(
    ConfigChange, STRING("name"), INT8("config_operation", "operation"), STRING("value", nullable=0)
)
_CHANGED: Final = Struct(ResourceChanges, _RESOURCE, row("configs", Array(_CHANGE), "changes"))
INCREMENTAL_REQUEST: Final = Struct(
    IncrementalAlterConfigsRequest, row("resources", Array(_CHANGED)), BOOL("validate_only")
)
