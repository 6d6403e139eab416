"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer

TOPIC: Final = 2
BROKER: Final = 4
"""Types of resources."""

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
"""Operations of IncrementalAlterConfigs."""

TOPIC_OWN: Final = 1
BROKER_FILE: Final = 4
DEFAULT_VALUE: Final = 5
"""Sources of values: the topic's own config, the broker's settings, the default."""

_RESOURCE_BYTES_MIN: Final = 3
CONFIG_BYTES_MIN: Final = 2


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


def _read_resource(reader: Reader) -> Resource:
    return Resource(reader.int8(), reader.string())


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
    message: str | None = None
    configs: tuple[DescribedConfig, ...] = ()


class DescribeConfigsAnswer(NamedTuple):
    resources: tuple[DescribedResource, ...]


def read_describe(reader: Reader, version: int) -> DescribeConfigsRequest:
    def read_wanted(reader: Reader) -> WantedConfigs:
        wanted = WantedConfigs(_read_resource(reader), reader.nullable_array(Reader.string, bytes_min=1))
        reader.tags()
        return wanted

    resources = reader.array(read_wanted, bytes_min=_RESOURCE_BYTES_MIN)
    return DescribeConfigsRequest(resources, reader.boolean(), reader.boolean() if version >= 3 else False)


def write_describe(writer: Writer, answer: DescribeConfigsAnswer, version: int) -> Steps:
    def write_synonym(synonym: Synonym) -> None:
        writer.string(synonym.name)
        writer.string(synonym.value)
        writer.int8(synonym.source)
        writer.tags()

    def write_config(config: DescribedConfig) -> None:
        writer.string(config.name)
        writer.string(config.value)
        writer.boolean(config.read_only)
        writer.int8(config.source)
        writer.boolean(False)  # no config here is a secret
        writer.array(config.synonyms, write_synonym)
        if version >= 3:
            writer.int8(config.kind)
            writer.string(config.documentation)
        writer.tags()

    writer.throttle_time()
    writer.length(len(answer.resources))
    for found in answer.resources:
        _write_outcome(writer, ResourceOutcome(found.resource, found.error, found.message))
        writer.array(found.configs, write_config)
        writer.tags()
        yield
    writer.tags()


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


def read_given_config(reader: Reader) -> GivenConfig:
    given = GivenConfig(reader.string(), reader.nullable_string())
    reader.tags()
    return given


def read_alter(reader: Reader, version: int) -> AlterConfigsRequest:
    def read_resource(reader: Reader) -> ResourceConfigs:
        given = ResourceConfigs(
            _read_resource(reader), reader.array(read_given_config, bytes_min=CONFIG_BYTES_MIN)
        )
        reader.tags()
        return given

    return AlterConfigsRequest(reader.array(read_resource, bytes_min=_RESOURCE_BYTES_MIN), reader.boolean())


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


def read_incremental_alter(reader: Reader, version: int) -> IncrementalAlterConfigsRequest:
    def read_change(reader: Reader) -> ConfigChange:
        change = ConfigChange(reader.string(), reader.int8(), reader.nullable_string())
        reader.tags()
        return change

    def read_resource(reader: Reader) -> ResourceChanges:
        given = ResourceChanges(
            _read_resource(reader), reader.array(read_change, bytes_min=CONFIG_BYTES_MIN + 1)
        )
        reader.tags()
        return given

    return IncrementalAlterConfigsRequest(
        reader.array(read_resource, bytes_min=_RESOURCE_BYTES_MIN), reader.boolean()
    )


def write_alter(writer: Writer, answer: AlterAnswer, version: int) -> None:
    def write_outcome(outcome: ResourceOutcome) -> None:
        _write_outcome(writer, outcome)
        writer.tags()

    writer.throttle_time()
    writer.array(answer.outcomes, write_outcome)
    writer.tags()


def _write_outcome(writer: Writer, outcome: ResourceOutcome) -> None:
    writer.int16(outcome.error)
    writer.string(outcome.message)
    writer.int8(outcome.resource.kind)
    writer.string(outcome.resource.name)
