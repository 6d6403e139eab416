"""The calls of the service `Log`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.log import wire
from strandline.broker.log.fetch_streams import FetchStreams
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.produce_stream import ProduceStream
from strandline.broker.log.requests import ProduceMessage, ProduceResults
from strandline.config import BrokerSettings
from strandline.ports import Caller, Clock, Reply, Served, ServedCall, ServedStream


def log_calls(
    handlers: Handlers, settings: BrokerSettings, times: RequestTimes, clock: Clock, key: MemberKey
) -> list[Served]:
    """The calls, for every listener of one broker."""
    fetches = FetchStreams(handlers, settings, times)

    async def produce(
        requests: AsyncIterator[ProduceMessage], reply: Reply[ProduceResults], caller: Caller
    ) -> None:
        refusal = key.refusal(caller.member_key)
        await ProduceStream(handlers, settings, times, clock, refusal).serve(requests, reply)

    return [
        ServedStream(wire.PRODUCE, produce),
        ServedStream(wire.FETCH, fetches.serve),
        ServedCall(wire.LIST_OFFSETS, lambda wanted, _: handlers.list_offsets(wanted)),
        ServedCall(wire.METADATA, lambda request, _: handlers.metadata(request)),
        ServedCall(wire.PARTITION_COUNTS, lambda topics, _: handlers.partition_counts(topics)),
        ServedCall(wire.INIT_PRODUCER_ID, lambda _, caller: handlers.new_producer_id()),
    ]
