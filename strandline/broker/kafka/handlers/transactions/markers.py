"""Answers WriteTxnMarkers, by which tools end a transaction that no coordinator knows (KIP-664)."""

from __future__ import annotations

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of
from strandline.broker.kafka.wire.topics import answering, names_of
from strandline.broker.kafka.wire.transactions.markers import (
    MarkedPartition,
    MarkerToWrite,
    WriteMarkersAnswer,
    WriteMarkersRequest,
    WrittenMarkers,
)
from strandline.broker.transactions.log_tools import LogTools
from strandline.errors import StrandlineError
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import Marker, MarkerEntry


class MarkersApi:
    """This API, for all connections of one broker."""

    def __init__(self, logs: LogTools) -> None:
        self._logs = logs

    async def write(self, request: WriteMarkersRequest, call: Call) -> WriteMarkersAnswer:
        """Answered once all markers that are not refused are committed."""
        entries = [entry for asked in request.markers for entry in _entries(asked)]
        results: list[StrandlineError | None]
        try:
            results = await self._logs.write_markers(entries, call.caller)
        except StrandlineError as error:
            results = [error] * len(entries)
        marked = iter(
            [
                MarkedPartition(entry.name.partition, code_of(result))
                for entry, result in zip(entries, results, strict=True)
            ]
        )
        return WriteMarkersAnswer(
            tuple(
                [
                    WrittenMarkers(asked.producer_id, answering(asked.topics, marked))
                    for asked in request.markers
                ]
            )
        )


def _entries(asked: MarkerToWrite) -> list[MarkerEntry]:
    producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
    marker = Marker(producer, asked.commit, asked.coordinator_epoch)
    return [MarkerEntry(name, marker) for name in names_of(asked.topics)]
