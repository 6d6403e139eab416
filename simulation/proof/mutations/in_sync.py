"""Mutations that break the rules of changes of the ISR (I)."""

from __future__ import annotations

from typing import Final

from strandline.simulation.proof.mutation import Mutation

_PARTITION: Final = "broker/core/replication/leader_partition.py"
_ISR: Final = "broker/core/replication/isr.py"
_WRITER: Final = "broker/replicas/isr_writer.py"

IN_SYNC: Final = (
    Mutation(
        "a follower joins the ISR below the high watermark",
        "I1",
        _ISR,
        "        and progress.log_end_offset >= high_watermark\n",
        "",
        faults=("slow network",),
    ),
    Mutation(
        "a follower joins the ISR below the start of the leader's epoch",
        "I1",
        _ISR,
        "        and progress.log_end_offset >= epoch_start\n",
        "",
        faults=("slow network",),
    ),
    Mutation(
        "the ISR is written over that of another leader",
        "I3",
        _WRITER,
        "znodes.dump_isr(wanted), write.version)",
        "znodes.dump_isr(wanted), -1)",
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
    ),
    Mutation(
        "a leader that finds another epoch in the record goes on with its own",
        "I4",
        _PARTITION,
        "        if state.leader != self.me or state.leader_epoch != self.epoch:\n",
        "        if not state.isr:\n",
    ),
    Mutation(
        "a broker that shuts down may join the ISR",
        "I7",
        _WRITER,
        "Check(znodes.broker(broker), version=0)",
        "Check(znodes.broker(broker))",
        faults=("stop broker",),
    ),
    Mutation(
        "a leader that suspects another broker leaves its own ISR",
        "I8",
        _PARTITION,
        "            if member.broker == self.me\n",
        "            if (member.broker == self.me and not self._suspects)\n",
    ),
)
