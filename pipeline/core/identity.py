"""Under which producer id and epoch a piece of a query's batch is written (KIP-98).

Whoever repeats the piece, in whatever process, comes to the same identity: so brokers recognize what is in
the log already. A producer id is that of a query's Spark partition, and its epoch the number of the batch:
once a batch is written, no broker takes an older one's records any more.
"""

from __future__ import annotations

import hashlib
from typing import Final

from strandline.client.messages import ProducerIdentity

PRODUCER_ID_MIN: Final = 1 << 62
"""Brokers hand out producer ids from 0 on; those that are computed begin here."""
HASH_BITS: Final = 61
EPOCHS: Final = 1 << 15
"""Epochs have 15 bits: with every so many batches a query's partition has another producer id."""


def identity_of(query: str, spark_partition: int, batch: int, generation: int = 0) -> ProducerIdentity:
    """Who writes this partition of this batch. `query`: a streaming query's id, or any text of one's own.

    `generation`: how often what was written under the generation before had left the log already, when it
    was to be looked at.
    """
    turn, epoch = divmod(batch, EPOCHS)
    name = f"{query}\n{spark_partition}\n{turn}\n{generation}".encode()
    number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
    return ProducerIdentity(PRODUCER_ID_MIN + (number >> (64 - HASH_BITS)), epoch)
