"""Every workload there is, and which of them a seed draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Annotated, Final

from pydantic import Field

from strandline_lab.simulation.workloads.assigned.group import Assigned
from strandline_lab.simulation.workloads.cleaning.topic import Cleaning
from strandline_lab.simulation.workloads.counting.forgetting import Forgetting
from strandline_lab.simulation.workloads.dividing import Dividing
from strandline_lab.simulation.workloads.groups import RELEASED, Groups
from strandline_lab.simulation.workloads.kafka import Kafka
from strandline_lab.simulation.workloads.operations import Operations
from strandline_lab.simulation.workloads.streams import Counting
from strandline_lab.simulation.workloads.transactions.topic import Transactions
from strandline_lab.simulation.workloads.unsteady.cutting import Cutting
from strandline_lab.simulation.workloads.unsteady.replacing import Replacing
from strandline_lab.simulation.workloads.writing import Writing

AnyWorkload = Annotated[
    Writing
    | Groups
    | Counting
    | Operations
    | Cleaning
    | Kafka
    | Transactions
    | Replacing
    | Cutting
    | Forgetting
    | Dividing
    | Assigned,
    Field(discriminator="kind"),
]

KINDS: Final[Mapping[str, Callable[[Random, str], AnyWorkload]]] = {
    "writing": Writing.drawn,
    "groups": Groups.drawn,
    "counting": Counting.drawn,
    "operations": Operations.drawn,
    "cleaning": Cleaning.drawn,
}
UNSTEADY: Final[Mapping[str, Callable[[Random, str], AnyWorkload]]] = {"replacing": Replacing.drawn}
LATEST_RATE: Final = 1 / 2
"""The part of all topics that are replaced whose members begin at the end."""
UNSTEADY_RATE: Final = 1 / 6
"""The part of all seeds whose last workload is one of these, or has a topic whose logs are cut."""
DIVIDING_RATE: Final = 1 / 12
"""The part of some seeds in which small writes are divided, and nothing else is done: see `_may_divide`."""
TRANSACTIONS_RATE: Final = 1 / 4
"""The part of the other seeds without a rare workload in which transactions are all that is done."""
HARDER_RATE: Final = 1 / 2
"""The part of these that are harder."""
ASSIGNED_RATE: Final = 1 / 4
"""The part of the seeds that are left in which a group whose coordinator assigns comes last, most
often alone."""
CUT_RATE: Final = 1 / 2
"""The part of these whose logs are cut."""
WORKLOADS_MAX: Final = 2
KAFKA_RATE: Final = 1 / 4
"""The part of all seeds whose last workload is one of Kafka clients."""
RELEASED_RATE: Final = 1 / 3
"""The part of all groups with the assignor of KIP-429 as it was released."""
SHARED: Final = frozenset({"range", RELEASED})
SHARED_RATE: Final = 1 / 2
"""The part of all groups with such an assignor that Kafka clients are members of, too."""


LEFT_MIXED_RATE: Final = 2 / 3
"""The part of all groups under an upgrade that never end it: members may have had several lives before the
group has its first generation."""
FORMED_RATE: Final = 2 / 3
"""The part of all groups that have their first generation before the faults begin."""


BUSY_RATE: Final = 1 / 6
"""The part of all groups whose members nearly always have records in their buffers."""
BUSY_PAUSE_S: Final = 0.02


FORGETTING_RATE: Final = 1 / 4
"""The part of all applications that count nothing, and delete keys instead."""
BALANCES_RATE: Final = 1 / 4
"""The part of all operators that balance brokers."""


def drawn_workloads(seed: int) -> tuple[AnyWorkload, ...]:
    """The workloads of a seed."""
    random = Random(f"{seed} workloads")
    kinds = random.sample(list(KINDS), random.randint(1, min(WORKLOADS_MAX, len(KINDS))))
    drawn = tuple(_with_later_lots(seed, KINDS[kind](random, kind)) for kind in kinds)
    # Lots of their own: the other seeds have the workloads that they had before these kinds came.
    random = Random(f"{seed} kafka")
    if random.random() < KAFKA_RATE:
        drawn = (*drawn[: WORKLOADS_MAX - 1], Kafka.drawn(random, "kafka"))
    random = Random(f"{seed} unsteady")
    if random.random() < UNSTEADY_RATE:
        kind = random.choice(list(UNSTEADY))
        unsteady = _or_cutting(seed, UNSTEADY[kind](random, kind))
        drawn = (*drawn[: WORKLOADS_MAX - 1], _with_later_lots(seed, unsteady))
    random = Random(f"{seed} parts")
    if random.random() < DIVIDING_RATE and _may_divide(drawn):
        drawn = (Dividing.drawn(random, "dividing"),)
    random = Random(f"{seed} transactions")
    if random.random() < TRANSACTIONS_RATE and not _is_rare(drawn):
        transactions = Transactions.drawn(random, "transactions")
        random = Random(f"{seed} harder transactions")
        harder = random.random() < HARDER_RATE
        return (transactions.made_harder(random) if harder else transactions,)
    random = Random(f"{seed} assigning coordinators")
    if random.random() < ASSIGNED_RATE and not _is_rare(drawn):
        others = drawn[: random.choice((0, 0, WORKLOADS_MAX - 1))]
        drawn = (*others, Assigned.drawn(random, "assigned"))
    return drawn


def _is_rare(drawn: tuple[AnyWorkload, ...]) -> bool:
    return any(isinstance(each, Kafka | Replacing | Cutting | Dividing) for each in drawn)


def _may_divide(drawn: tuple[AnyWorkload, ...]) -> bool:
    """Rare workloads keep their seeds, and so do most pairs."""
    return not _is_rare(drawn) and (len(drawn) == 1 or any(isinstance(each, Operations) for each in drawn))


def _or_cutting(seed: int, unsteady: AnyWorkload) -> AnyWorkload:
    random = Random(f"{seed} cut logs")
    return Cutting.drawn(random, "cutting") if random.random() < CUT_RATE else unsteady


def _with_later_lots(seed: int, workload: AnyWorkload) -> AnyWorkload:
    """What came later has lots of its own, too."""
    if isinstance(workload, Counting):
        random = Random(f"{seed} deletions")
        return Forgetting.drawn(random, "forgetting") if random.random() < FORGETTING_RATE else workload
    if isinstance(workload, Replacing):
        latest = Random(f"{seed} latest").random() < LATEST_RATE
        return workload.begun_at_the_end() if latest else workload
    if isinstance(workload, Operations):
        balances = Random(f"{seed} balances").random() < BALANCES_RATE
        return workload.balancing() if balances else workload
    return _with_assignor(seed, workload) if isinstance(workload, Groups) else workload


def _with_assignor(seed: int, workload: Groups) -> Groups:
    random = Random(f"{seed} assignor")
    if random.random() < RELEASED_RATE:
        workload = workload.model_copy(update={"assignor": RELEASED})
    own = Random(f"{seed} group")
    if own.random() < LEFT_MIXED_RATE:
        workload = workload.left_mixed()
    if own.random() < FORMED_RATE:
        workload = workload.formed_first()
    if Random(f"{seed} busy").random() < BUSY_RATE:
        workload = workload.model_copy(update={"pause_s": BUSY_PAUSE_S})
    shared = workload.assignor in SHARED and random.random() < SHARED_RATE
    return workload.with_kafka_clients(random) if shared else workload
