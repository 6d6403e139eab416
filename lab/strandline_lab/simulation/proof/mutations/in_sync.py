"""Mutations that break the rules of changes of the ISR (I)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_PARTITION: Final = "strandline/broker/core/replication/leader_partition.py"
_ISR: Final = "strandline/broker/core/replication/isr.py"
_WRITER: Final = "strandline/broker/replicas/leading/isr_writer.py"

IN_SYNC: Final = (
    Mutation(
        "a follower joins the ISR below the high watermark",
        "I1",
        _ISR,
        "        and progress.log_end_offset >= high_watermark\n",
        "",
        faults=("return on a slow way",),
        seed=241,
    ),
    Mutation(
        "a follower joins the ISR below the start of the leader's epoch",
        "I1",
        _ISR,
        "        and progress.log_end_offset >= epoch_start\n",
        "",
        faults=("return to an old watermark",),
        seed=62,
    ),
    Mutation(
        "a write of the ISR whose answer was lost counts as done",
        "I4",
        _WRITER,
        """        except ConnectionLost:
            return await read_isr(self._session, self._clock, name)
""",
        """        except ConnectionLost:
            return wanted, write.version + 1
""",
        faults=("shrink in doubt",),
        seed=76,
    ),
    Mutation(
        "a second change of the ISR is made before the first is settled",
        "I5",
        _PARTITION,
        "        return self.isr_writable and self.isr.change is None\n",
        "        return self.isr_writable\n",
        seed=0,
    ),
    Mutation(
        "a broker that shuts down may join the ISR",
        "I7",
        _WRITER,
        "Check(znodes.broker(member.broker), version=0)",
        "Check(znodes.broker(member.broker))",
        faults=("stop broker",),
        seed=64,
    ),
    Mutation(
        "a leader that suspects another broker leaves its own ISR",
        "I8",
        _PARTITION,
        "            if member.broker == self.me\n",
        "            if (member.broker == self.me and not self._suspects)\n",
        seed=0,
    ),
    Mutation(
        "a broker claims a partition without a place in its ISR",
        "I8",
        "strandline/broker/core/election/election.py",
        "tuple(sorted((mine, *_others(ballot)),",
        "tuple(sorted(_others(ballot) or (mine,),",
        seed=0,
    ),
)
