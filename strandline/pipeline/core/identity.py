"""Computes the producer id and epoch under which a piece of a query's batch is written (KIP-98).

Every process that repeats the piece computes the same identity, so brokers recognize what is already in the
log. The producer id belongs to a query's Spark partition, and its epoch is the number of the batch: once a
batch is written, no broker accepts an older one's records.
"""

from __future__ import annotations

import hashlib
from typing import Final

from strandline.vocabulary.log import ProducerIdentity

PRODUCER_ID_MIN: Final = 1 << 62
"""Brokers assign producer ids from 0 on; computed ids begin here."""
HASH_BITS: Final = 61
EPOCHS: Final = 1 << 15
"""Epochs have 15 bits: after this number of batches a query's partition gets another producer id."""


def identity_of(query: str, spark_partition: int, batch: int, generation: int = 0) -> ProducerIdentity:
    """The identity that writes this partition of this batch. `query`: a streaming query's id, or any unique
    text.

    `generation`: how often the records of the previous generation had already left the log when they were
    searched for.
    """
    turn, epoch = divmod(batch, EPOCHS)
    name = f"{query}\n{spark_partition}\n{turn}\n{generation}".encode()
    number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
    return ProducerIdentity(PRODUCER_ID_MIN + (number >> (64 - HASH_BITS)), epoch)
