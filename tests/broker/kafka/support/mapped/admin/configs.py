"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.configs import (
    AlterAnswer,
    AlterConfigsRequest,
    ConfigChange,
    DescribeConfigsAnswer,
    DescribeConfigsRequest,
    DescribedConfig,
    DescribedResource,
    GivenConfig,
    IncrementalAlterConfigsRequest,
    Resource,
    ResourceChanges,
    ResourceConfigs,
    ResourceOutcome,
    Synonym,
    WantedConfigs,
)
from strandline.broker.kafka.wire.apis import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def resource(r: Values) -> Resource:
    return Resource(r["resource_type"], r["resource_name"])


# --- DescribeConfigs --------------------------------------------------------------------------


def describe_request(asked: Values, version: int) -> DescribeConfigsRequest:
    def wanted(r: Values) -> WantedConfigs:
        names = r["configuration_keys"]
        return WantedConfigs(resource(r), None if names is None else tuple(names))

    return DescribeConfigsRequest(
        tuple(map(wanted, asked["resources"])),
        asked["include_synonyms"],
        asked.get("include_documentation", False),
    )


def describe_answer(found: Values, version: int) -> DescribeConfigsAnswer:
    return DescribeConfigsAnswer(
        tuple(
            DescribedResource(
                resource(r), r["error_code"], r["error_message"], tuple(map(described, r["configs"]))
            )
            for r in found["results"]
        )
    )


def described(c: Values) -> DescribedConfig:
    return DescribedConfig(
        c["name"],
        c["value"],
        c["read_only"],
        c["config_source"],
        tuple(Synonym(s["name"], s["value"], s["source"]) for s in c["synonyms"]),
        c.get("config_type", 0),
        c.get("documentation"),
    )


# --- alterations ------------------------------------------------------------------------------


def alter_request(asked: Values, version: int) -> AlterConfigsRequest:
    def given(r: Values) -> ResourceConfigs:
        return ResourceConfigs(resource(r), tuple(GivenConfig(c["name"], c["value"]) for c in r["configs"]))

    return AlterConfigsRequest(tuple(map(given, asked["resources"])), asked["validate_only"])


def incremental_request(asked: Values, version: int) -> IncrementalAlterConfigsRequest:
    def given(r: Values) -> ResourceChanges:
        changes = (ConfigChange(c["name"], c["config_operation"], c["value"]) for c in r["configs"])
        return ResourceChanges(resource(r), tuple(changes))

    return IncrementalAlterConfigsRequest(tuple(map(given, asked["resources"])), asked["validate_only"])


def alter_answer(found: Values, version: int) -> AlterAnswer:
    return AlterAnswer(
        tuple(ResourceOutcome(resource(r), r["error_code"], r["error_message"]) for r in found["responses"])
    )


MAPPED: Final = (
    Mapped(DESCRIBE_CONFIGS, describe_request, describe_answer, {"is_sensitive": False}),
    Mapped(ALTER_CONFIGS, alter_request, alter_answer),
    Mapped(INCREMENTAL_ALTER_CONFIGS, incremental_request, alter_answer),
)
