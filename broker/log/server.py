"""The calls of the service `Log`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from strandline.adapters.codecs import log as rpcs
from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.log.fetch_streams import FetchStreams
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.produce_stream import ProduceReply, ProduceStream
from strandline.config.services import BrokerSettings
from strandline.ports import Caller, Clock, Served, ServedCall, ServedStream
from strandline.vocabulary.log import ProduceMessage


def log_calls(
    handlers: Handlers, settings: BrokerSettings, times: RequestTimes, clock: Clock, key: MemberKey
) -> list[Served]:
    """The calls, for every listener of one broker."""
    fetches = FetchStreams(handlers, settings, times)

    async def produce(requests: AsyncIterator[ProduceMessage], reply: ProduceReply, caller: Caller) -> None:
        refuse_internal = partial(key.refusal, caller.member_key)
        await ProduceStream(handlers, settings, times, clock, refuse_internal).serve(requests, reply)

    return [
        ServedStream(rpcs.SERVED_PRODUCE, produce),
        ServedStream(rpcs.FETCH.served, fetches.serve),
        ServedCall(rpcs.LIST_OFFSETS.served, lambda wanted, _: handlers.list_offsets(wanted)),
        ServedCall(rpcs.METADATA.served, lambda query, _: handlers.metadata(query)),
        ServedCall(rpcs.PARTITION_COUNTS.served, lambda topics, _: handlers.partition_counts(topics)),
        ServedCall(rpcs.INIT_PRODUCER_ID.served, lambda _, caller: handlers.new_identity()),
    ]
