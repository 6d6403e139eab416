"""Answers ListConfigResources: topics, groups, brokers and their loggers have configs (KIP-1142)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from strandline.adapters.codecs.group_configs import DESCRIBE_GROUP_CONFIGS
from strandline.broker.kafka.answers import AnswerSize
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of
from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline
from strandline.broker.kafka.wire.admin.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from strandline.broker.kafka.wire.admin.resources import (
    ListedResource,
    ListResourcesAnswer,
    ListResourcesRequest,
)
from strandline.errors import StrandlineError
from strandline.ids import BrokerId
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.security.rights import DESCRIBE_CLUSTER_CONFIGS
from strandline.vocabulary.configs.groups import GroupConfigs

KINDS: Final = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
"""Groups are listed that have configs of their own. There are no subscriptions to metrics of clients."""

Topics = Callable[[Sequence[str], Caller], Awaitable[Mapping[str, int]]]


class ResourcesApi:
    """This API, for all connections of one broker."""

    def __init__(
        self,
        topics: Topics,
        live: Callable[[], Iterable[BrokerId]],
        controller: ControllerFor,
        access: Access,
        clock: Clock,
    ) -> None:
        """`topics` gives those that the caller may see, if none is named. Raises LeaderNotAvailable."""
        self._topics = topics
        self._live = live
        self._controller = controller
        self._access = access
        self._clock = clock

    async def list(self, request: ListResourcesRequest, call: Call, size: AnswerSize) -> ListResourcesAnswer:
        """Always the whole list: a client could not tell one that ends where its answer is full."""
        kinds = request.kinds or KINDS
        if not set(kinds).issubset(KINDS):
            return ListResourcesAnswer(int(KafkaCode.UNSUPPORTED_VERSION))
        try:
            self._access.check(call.caller, DESCRIBE_CLUSTER_CONFIGS)
            names = sorted(await self._topics((), call.caller)) if TOPIC in kinds else ()
            groups = await self._groups(call.caller) if GROUP in kinds else ()
        except StrandlineError as error:
            return ListResourcesAnswer(code_of(error))
        brokers = [str(broker) for broker in sorted(self._live())]
        found = [
            *(ListedResource(name, TOPIC) for name in names),
            *(
                ListedResource(name, kind)
                for kind in (BROKER, BROKER_LOGGER)
                if kind in kinds
                for name in brokers
            ),
            *(ListedResource(each.group, GROUP) for each in groups),
        ]
        for each in found:
            await size.add(each.name)
        return ListResourcesAnswer(resources=tuple(found))

    async def _groups(self, caller: Caller) -> Sequence[GroupConfigs]:
        """Raises as `ControllerLink.call`."""
        controller = self._controller(caller)
        return await controller.ask(DESCRIBE_GROUP_CONFIGS, (), Deadline(self._clock))
