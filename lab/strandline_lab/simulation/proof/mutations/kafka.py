"""Mutations that break the rules of the Kafka listener (K)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_PRODUCE: Final = "strandline/broker/kafka/handlers/producing/produce.py"
_GROUP_OFFSETS: Final = "strandline/broker/kafka/handlers/groups/offsets.py"
_KAFKA: Final = ("kafka",)
_GROUPS: Final = ("groups",)

KAFKA: Final = (
    Mutation(
        "answers leave in the order in which they are ready",
        "K1",
        "strandline/broker/kafka/answer_order.py",
        """        while self._slots and (parts := self._slots[0].parts) is not None:
            self._slots.popleft()
            leaving += parts
""",
        """        for slot in [slot for slot in self._slots if slot.parts is not None]:
            self._slots.remove(slot)
            leaving += slot.parts
""",
        workloads=_KAFKA,
        seed=3,
    ),
    Mutation(
        "a request that asks for acks=all is answered by the leader alone",
        "K2",
        _PRODUCE,
        "            request.acks,\n",
        "            1,\n",
        workloads=_KAFKA,
        seed=1,
    ),
    Mutation(
        "a batch is answered with the offset after its first record",
        "K2",
        _PRODUCE,
        "base, start = outcome.base_offset, outcome",
        "base, start = outcome.base_offset + 1, outcome",
        workloads=_KAFKA,
        seed=1,
    ),
    Mutation(
        "a batch that was refused is answered with success",
        "K2",
        _PRODUCE,
        "            code = produce_code(outcome, self.call.version)\n",
        "            code = 0\n",
        workloads=_KAFKA,
        seed=3,
    ),
    Mutation(
        "a Kafka member gets the offset after the one that is committed",
        "G12",
        _GROUP_OFFSETS,
        "PartitionOffset(name.partition, committed.offset, committed",
        "PartitionOffset(name.partition, committed.offset + 1, committed",
        workloads=_GROUPS,
        seed=6,
    ),
)
