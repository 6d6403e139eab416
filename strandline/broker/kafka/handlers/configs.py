"""Answers DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from strandline.adapters.codecs.group_configs import DESCRIBE_GROUP_CONFIGS as DESCRIBE_GROUP_CONFIGS_RPC
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.configs.broker_names import broker_configs, logger_config
from strandline.broker.kafka.configs.changes import (
    Alteration,
    check_broker_changes,
    increment,
    replacement,
)
from strandline.broker.kafka.configs.described import topic_configs
from strandline.broker.kafka.configs.group_names import group_configs, group_increment, group_replacement
from strandline.broker.kafka.errors import code_of, message_of
from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline, check_count
from strandline.broker.kafka.handlers.describing.resources import KINDS
from strandline.broker.kafka.wire.admin.configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    AlterAnswer,
    AlterConfigsRequest,
    ConfigChange,
    DescribeConfigsAnswer,
    DescribeConfigsRequest,
    DescribedConfig,
    DescribedResource,
    IncrementalAlterConfigsRequest,
    Resource,
    ResourceOutcome,
    WantedConfigs,
)
from strandline.broker.metadata.topic_outlines import TopicOutline, TopicOutlines
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    InvalidConfig,
    InvalidRequest,
    StrandlineError,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.security.rights import (
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC_CONFIGS,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC_CONFIGS,
    Right,
)
from strandline.security.topic_changes import alteration_refusal
from strandline.tasks import Slices
from strandline.vocabulary.admin import AlterTopic
from strandline.vocabulary.configs.groups import (
    AlterGroupConfigs,
    GroupConfig,
    GroupConfigAlteration,
    check_name,
)
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.topics import check_topic_name

Change = Callable[[TopicOutline], Alteration]
GroupChange = Callable[[str], GroupConfigAlteration]


class Wanted(NamedTuple):
    """A change that a client asks for."""

    resource: Resource
    of_topic: Change
    of_group: GroupChange
    of_broker: Sequence[ConfigChange] | None = None
    """None: all configs are to be replaced."""


TO_DESCRIBE: Final = DESCRIBE_TOPIC_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
TO_ALTER: Final = ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS
"""The rights to configs of topics, of groups, and of everything else."""
ZOOKEEPER_WAIT_S: Final = 10.0
"""How long a request waits for ZooKeeper. It does not say how long its client waits: mostly half a minute.
Some programs end at an error that passes."""
UNALTERABLE: Final = {
    CLIENT_METRICS: "clients' metrics are not collected (KIP-714)",
}


class ConfigsApi:
    """These APIs, for all connections of one broker."""

    def __init__(
        self,
        controller: ControllerFor,
        outlines: TopicOutlines,
        settings: BrokerSettings,
        own: Endpoint,
        access: Access,
        clock: Clock,
    ) -> None:
        self._access = access
        self._controller = controller
        self._outlines = outlines
        self._settings = settings
        self._own = own
        self._clock = clock

    # --- DescribeConfigs ---------------------------------------------------------------------

    async def describe(
        self, request: DescribeConfigsRequest, call: Call, size: AnswerSize
    ) -> DescribeConfigsAnswer:
        topics, error = await self._topics(each.resource for each in request.resources)
        groups = await self._groups(call.caller, [each.resource for each in request.resources], error)
        described = list[DescribedResource]()
        for wanted in request.resources:
            try:
                if error is not None:
                    raise error
                self._check(call.caller, wanted.resource, *TO_DESCRIBE)
                configs = self._configs(wanted.resource, topics, groups)
                shown = tuple(_shown(each, request) for each in configs if _is_wanted(each, wanted))
                described.append(DescribedResource(wanted.resource, configs=shown))
            except UnknownTopicOrPartition as unknown:  # as from Kafka, without a text
                described.append(DescribedResource(wanted.resource, code_of(unknown)))
            except StrandlineError as refused:
                described.append(DescribedResource(wanted.resource, code_of(refused), refused.message))
            await _add(size, described[-1])
        return DescribeConfigsAnswer(tuple(described))

    def _configs(
        self,
        resource: Resource,
        topics: dict[str, TopicOutline],
        groups: Mapping[str, GroupConfig | StrandlineError],
    ) -> Iterable[DescribedConfig]:
        """Raises UnknownTopicOrPartition, InvalidTopic, InvalidRequest, and why a group's are not known."""
        if resource.kind == TOPIC:
            return topic_configs(_known(resource.name, topics))
        if resource.kind == GROUP and resource.name:
            own = groups[resource.name]
            if isinstance(own, StrandlineError):
                raise own
            return group_configs(own, self._settings)
        if resource.kind not in KINDS:
            raise InvalidRequest(f"configs of resource type {resource.kind} are not served")
        if not resource.name and resource.kind != BROKER:
            raise InvalidRequest(f"a resource of type {resource.kind} has a name")
        if resource.kind not in (BROKER, BROKER_LOGGER) or not self._is_of_this_broker(resource):
            return ()  # what brokers share, and metrics of clients: there is no such config
        if resource.kind == BROKER_LOGGER:
            return (logger_config(self._settings.log_level),)
        return broker_configs(self._settings, self._own)

    def _is_of_this_broker(self, resource: Resource) -> bool:
        """False for what brokers share: there is no such config. Raises InvalidRequest for another broker."""
        own = str(self._settings.broker_id)
        if resource.name not in ("", own):
            raise InvalidRequest(f"this is broker {own}: ask broker {resource.name[:20]} itself")
        return resource.name == own

    # --- alterations -------------------------------------------------------------------------

    async def alter(self, request: AlterConfigsRequest, call: Call) -> AlterAnswer:
        """Replaces all configs of each topic."""
        changes = [
            Wanted(
                each.resource,
                partial(replacement, given=each.configs),
                partial(group_replacement, given=each.configs),
            )
            for each in request.resources
        ]
        return await self._alter(changes, call.caller, validate_only=request.validate_only)

    async def alter_incrementally(self, request: IncrementalAlterConfigsRequest, call: Call) -> AlterAnswer:
        changes = [
            Wanted(
                each.resource,
                partial(increment, changes=each.changes),
                partial(group_increment, changes=each.changes),
                each.changes,
            )
            for each in request.resources
        ]
        return await self._alter(changes, call.caller, validate_only=request.validate_only)

    async def _alter(self, changes: Sequence[Wanted], caller: Caller, *, validate_only: bool) -> AlterAnswer:
        deadline = Deadline(self._clock)
        topics, error = await self._topics(each.resource for each in changes)
        count = Counter(each.resource for each in changes)
        slices = Slices(self._clock)
        outcomes: dict[Resource, StrandlineError | None] = {}
        alterations: list[AlterTopic] = []
        of_groups: list[GroupConfigAlteration] = []
        for wanted in changes:
            if slices.used_up:
                await slices.next()
            resource = wanted.resource
            outcomes[resource] = error
            if error is None:
                try:
                    self._check_alteration(caller, resource)
                    if resource.kind == BROKER:
                        self._is_of_this_broker(resource)
                    if count[resource] > 1:
                        raise InvalidRequest("the resource stands more than once in the request")
                    if resource.kind == GROUP:
                        check_name(resource.name)
                        of_groups.append(wanted.of_group(resource.name))
                        continue
                    alteration = _alteration(wanted, topics, validate_only=validate_only)
                    if alteration is not None:
                        alterations.append(alteration)
                except StrandlineError as refused:
                    outcomes[resource] = refused
        for result in await self._controller(caller).alter(alterations, deadline):
            outcomes[Resource(TOPIC, result.topic)] = result.error
        asked = AlterGroupConfigs(tuple(of_groups), validate_only)
        for altered in await self._controller(caller).alter_groups(asked, deadline):
            outcomes[Resource(GROUP, altered.group)] = altered.error
        return AlterAnswer(tuple(_outcome(resource, outcomes[resource]) for resource, *_ in changes))

    async def _groups(
        self, caller: Caller, resources: Sequence[Resource], error: StrandlineError | None
    ) -> dict[str, GroupConfig | StrandlineError]:
        """What each group that is named has of its own, or why it is not known."""
        names = list(dict.fromkeys(each.name for each in resources if each.kind == GROUP and each.name))
        named = [name for name in names if self._access.allowed(caller, DESCRIBE_GROUP_CONFIGS, name)]
        if not named or error is not None:
            return {}
        try:
            controller = self._controller(caller)
            found = await controller.ask(DESCRIBE_GROUP_CONFIGS_RPC, named, Deadline(self._clock))
        except StrandlineError as unknown:
            return dict.fromkeys(named, unknown)
        return {each.group: each.error or each.config for each in found}

    def _check(
        self, caller: Caller, resource: Resource, of_topic: Right, of_group: Right, of_cluster: Right
    ) -> None:
        """Raises TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed."""
        if resource.kind == TOPIC:
            self._access.check(caller, of_topic, resource.name)
        elif resource.kind == GROUP:
            self._access.check(caller, of_group, resource.name)
        else:
            self._access.check(caller, of_cluster)

    def _check_alteration(self, caller: Caller, resource: Resource) -> None:
        """Raises TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed,
        InvalidRequest."""
        if resource.kind == TOPIC and not resource.name:
            raise InvalidRequest("a topic has a name")
        self._check(caller, resource, *TO_ALTER)
        if resource.kind == TOPIC:
            refusal = alteration_refusal(self._access, caller, resource.name, configs=True, partitions=False)
            if refusal is not None:
                raise refusal

    async def _topics(
        self, resources: Iterable[Resource]
    ) -> tuple[dict[str, TopicOutline], StrandlineError | None]:
        """The topics among the resources, or the error of all resources."""
        every = list(resources)
        names = [each.name for each in every if each.kind == TOPIC]
        try:
            check_count(every, "resources")
            return (await self._outlines.read(names, ZOOKEEPER_WAIT_S) if names else {}), None
        except StrandlineError as error:
            return {}, error


def _known(name: str, topics: dict[str, TopicOutline]) -> TopicOutline:
    """Raises UnknownTopicOrPartition, InvalidTopic."""
    check_topic_name(name)
    topic = topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    return topic


def _is_wanted(config: DescribedConfig, wanted: WantedConfigs) -> bool:
    return not wanted.names or config.name in wanted.names


def _shown(config: DescribedConfig, request: DescribeConfigsRequest) -> DescribedConfig:
    """Without what the client did not ask for."""
    if not request.synonyms:
        config = config._replace(synonyms=())
    return config if request.documentation else config._replace(documentation=None)


async def _add(size: AnswerSize, described: DescribedResource) -> None:
    configs = described.configs
    entries = 1 + sum(1 + len(config.synonyms) for config in configs)
    texts = (text for config in configs for text in _texts(config))
    await size.add(described.resource.name, described.message or "", *texts, entries=entries)


def _texts(config: DescribedConfig) -> Iterator[str]:
    for text in (config.name, config.value, config.documentation):
        yield text or ""
    for synonym in config.synonyms:
        yield synonym.name
        yield synonym.value or ""


def _alteration(wanted: Wanted, topics: dict[str, TopicOutline], *, validate_only: bool) -> AlterTopic | None:
    """None if all is as it shall be. Raises the reason why it cannot be altered."""
    resource = wanted.resource
    if resource.kind == BROKER:
        check_broker_changes(wanted.of_broker)
        return None
    if resource.kind == BROKER_LOGGER:
        raise InvalidConfig(
            "the level of a broker's log is its setting log_level: change that, and restart it"
        )
    if resource.kind in UNALTERABLE:
        raise InvalidRequest(UNALTERABLE[resource.kind])
    if resource.kind != TOPIC:
        raise InvalidRequest(f"configs of resource type {resource.kind} are not served")
    topic = _known(resource.name, topics)
    change = wanted.of_topic(topic)
    if not change.set and not change.unset:
        return None
    return AlterTopic(topic.name, change.set, change.unset, validate_only=validate_only)


def _outcome(resource: Resource, error: StrandlineError | None) -> ResourceOutcome:
    """As from Kafka, without a text about an operation that is not known."""
    message = None if isinstance(error, UnknownServerError) else message_of(error)
    return ResourceOutcome(resource, code_of(error), message)
