"""The calls of the service `Log`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from strandline.adapters.codecs import log as rpcs
from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.broker.log.fetch_streams import FetchStreams
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.produce_stream import AsksForRights, ProduceReply, ProduceStream
from strandline.config.services.broker import BrokerSettings
from strandline.ports import Caller, Clock, ServedStream
from strandline.security.quotas.bill import ClientQuotas
from strandline.serving.serve import CallRow, Row
from strandline.vocabulary.log import ProduceMessage


def log_rows(
    log: Handlers,
    settings: BrokerSettings,
    times: RequestTimes,
    clock: Clock,
    key: MemberKey,
    quotas: ClientQuotas,
    rights: AsksForRights,
) -> list[Row]:
    """The calls, for every listener of one broker."""
    fetches = FetchStreams(log.reads, settings, times, clock, quotas)

    async def produce(requests: AsyncIterator[ProduceMessage], reply: ProduceReply, caller: Caller) -> None:
        refuse_internal = partial(key.refusal, caller.member_key)
        stream = ProduceStream(log, caller, settings, times, clock, refuse_internal, quotas, rights)
        await stream.serve(requests, reply)

    return [
        ServedStream(rpcs.SERVED_PRODUCE, produce),
        ServedStream(rpcs.FETCH.served, fetches.serve),
        CallRow(rpcs.LIST_OFFSETS.served, log.list_offsets),
        CallRow(rpcs.EPOCH_ENDS.served, log.epoch_ends),
        CallRow(rpcs.DESCRIBE_REPLICAS.served, log.describe_replicas),
        CallRow(rpcs.METADATA.served, log.metadata),
        CallRow(rpcs.PARTITION_COUNTS.served, log.partition_counts),
        CallRow(rpcs.INIT_PRODUCER_ID.served, lambda _, caller: log.new_identity(caller)),
    ]
