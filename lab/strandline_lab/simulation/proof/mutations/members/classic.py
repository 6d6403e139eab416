"""Mutations that break the rules of consumer groups and their offsets (G)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_KEEPER: Final = "strandline/broker/core/groups/offset_keeper.py"
_COORDINATOR: Final = "strandline/broker/core/groups/coordinator.py"
_COORDINATOR_PARTITION: Final = "strandline/broker/coordinators/partition.py"
_LEADER_PLAN: Final = "strandline/consumer/core/leader_plan.py"
_HANDOVER: Final = "strandline/consumer/group/handover.py"
_COMMITS: Final = "strandline/consumer/group/commits.py"

_POSITION_FINDER: Final = "strandline/client/reading/position_finder.py"

_GROUPS: Final = ("groups",)

GROUPS: Final = (
    Mutation(
        "a commit of a member that was removed is accepted",
        "G1",
        _KEEPER,
        "            member = group.current(request.member, request.instance, request.generation, "
        "self._turn.by)\n",
        """            if request.member not in group.members:
                return
            member = group.current(request.member, request.instance, request.generation, self._turn.by)
""",
        workloads=_GROUPS,
        seed=35,
    ),
    Mutation(
        "a request of a process that another one replaced is not fenced",
        "G1",
        "strandline/broker/core/groups/state/owners.py",
        "    if current != member:\n",
        "    if not current:\n",
        workloads=_GROUPS,
        stalls=True,
        seed=3,
    ),
    Mutation(
        "a coordinator that may have been replaced answers",
        "G1",
        _COORDINATOR_PARTITION,
        "        if not await ask():\n",
        "        if self.ended():\n",
        workloads=_GROUPS,
    ),
    Mutation(
        "a partition is assigned before its owner gave it up",
        "G2",
        _LEADER_PLAN,
        "        if claims.unclaimed(partition) or claims.owners.get(partition) == member:\n",
        "        if partition:\n",
        workloads=_GROUPS,
        seed=30,
    ),
    Mutation(
        "a mixed group assigns partitions that cooperative members own",
        "G2",
        _LEADER_PLAN,
        "        if not claims.unclaimed(partition):\n            continue\n",
        "",
        workloads=_GROUPS,
        seed=None,
    ),
    Mutation(
        "an eager member joins without giving up its partitions",
        "G5",
        "strandline/consumer/core/membership.py",
        "        if self.owned and not self._settings.cooperative:\n",
        "        if self.owned and self._attempts:\n",
        workloads=_GROUPS,
        seed=12,
    ),
    Mutation(
        "records of a partition are handed out while it is being revoked",
        "G6",
        _HANDOVER,
        "            self._reader.hold(effect.partitions)\n",
        "            pass\n",
        workloads=_GROUPS,
        seed=73,
    ),
    Mutation(
        "a partition is revoked while records of it are in hand",
        "G6",
        _HANDOVER,
        "                in_order = await self._drain(names)\n",
        "                in_order = True\n",
        workloads=_GROUPS,
        seed=50,
    ),
    Mutation(
        "records of a lost partition stay buffered",
        "G9",
        _HANDOVER,
        """            self._drop(effect.partitions)
            self._delivery.interrupt()
""",
        """            self._delivery.interrupt()
""",
        workloads=_GROUPS,
    ),
    Mutation(
        "a commit that was not written is answered with success",
        "G12",
        _COORDINATOR_PARTITION,
        "self._carry_out(self._core.appended(write_id, error, self._now()))",
        "self._carry_out(self._core.appended(write_id, None, self._now()))",
        workloads=_GROUPS,
        seed=18,
    ),
    Mutation(
        "a commit is answered before it is replicated",
        "G12",
        "strandline/broker/coordinators/appender.py",
        "acks=ACKS_ALL,",
        "acks=1,",
        workloads=_GROUPS,
        seed=35,
    ),
    Mutation(
        "a coordinator that loads a group drops its offsets",
        "G12",
        "strandline/broker/core/groups/assigned/kinds.py",
        "    group.offsets = before.offsets\n",
        "",
        workloads=_GROUPS,
        seed=12,
    ),
    Mutation(
        "a static member that returns gets no assignment",
        "G13",
        "strandline/broker/core/groups/state/member.py",
        "        self.assignment = old.assignment\n",
        "",
        workloads=_GROUPS,
        stalls=True,
        seed=3,
    ),
    Mutation(
        "what appears while a group reads is begun at its end",
        "G21",
        _POSITION_FINDER,
        "        appeared = since is not None and since.precedes(name.partition, listed.topic_id)\n",
        "        appeared = False\n",
        workloads=("replacing",),
        seed=142,
    ),
    Mutation(
        "a coordinator that loads a group forgets since when it reads its topics",
        "G21",
        "strandline/broker/core/groups/state/group.py",
        "        group.set_read_topics(record.read_topics)\n",
        "",
        workloads=("replacing",),
        seed=142,
    ),
)
