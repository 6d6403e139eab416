"""Mutations that break the rules of groups whose coordinator assigns (G24 to G28)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_CORE: Final = "strandline/broker/core/consumer_groups"
_ASSIGNED: Final = "strandline/broker/core/groups/assigned"
_BEATS: Final = f"{_CORE}/beats.py"
_CHANGE: Final = f"{_CORE}/change.py"
_FENCE: Final = f"{_CORE}/fence.py"
_GROUP: Final = f"{_CORE}/group.py"
_LOADING: Final = f"{_CORE}/loading.py"
_STEP: Final = f"{_CORE}/reconciliation.py"
_HANDLERS: Final = "strandline/broker/groups/handlers.py"
_MEMBERSHIP: Final = "strandline/consumer/core/assigned/membership.py"
_SCHEDULE: Final = "strandline/consumer/core/assigned/schedule.py"

_KINDS: Final = ("assigned",)

ASSIGNED: Final = (
    Mutation(
        "a partition is given before its member gave it up",
        "G24",
        _STEP,
        "key in member.revoking or target.is_free(key)]",
        "key]",
        workloads=_KINDS,
        seed=42,
    ),
    Mutation(
        "what a member has yet to give up counts as free",
        "G24",
        _GROUP,
        "        for key in (*member.assigned, *member.revoking):\n"
        "            self.owners[key] = member.member\n",
        "        for key in member.revoking:\n            self.owners.pop(key, None)\n"
        "        for key in member.assigned:\n            self.owners[key] = member.member\n",
        workloads=_KINDS,
        seed=42,
    ),
    Mutation(
        "a coordinator that takes over forgets what members have yet to give up",
        "G24",
        _LOADING,
        "                    revoking=current.revoking,\n",
        "                    revoking={},\n",
        workloads=_KINDS,
    ),
    Mutation(
        "a heartbeat that says nothing gives everything up",
        "G24",
        _STEP,
        "    return owned is None or any(",
        "    return owned is not None and any(",
        workloads=_KINDS,
        seed=42,
    ),
    Mutation(
        "a heartbeat that is sent again gives up what its member was given since",
        "G24",
        _SCHEDULE,
        "*chain.from_iterable(self._unheard)",
        "*chain.from_iterable(self._unheard[:0])",
        workloads=_KINDS,
        seed=47,
    ),
    Mutation(
        "a member says that it gives partitions up before its application has",
        "G24",
        _MEMBERSHIP,
        "        return [Revoke(self._pending.begin(Awaited.RELEASE), partitions, reason)]\n",
        """        owned = self._owned
        self._owned = {name: owned[name] for name in owned if name not in partitions}
        said, self._owned = self._say(), owned
        return [said, Revoke(self._pending.begin(Awaited.RELEASE), partitions, reason)]
""",
        workloads=_KINDS,
        seed=42,
    ),
    Mutation(
        "an instance is replaced that has not left",
        "G24",
        _BEATS,
        "    if not member.away and member.classic is None:\n",
        "    if member.epoch < 0 and not member.away:\n",
        workloads=_KINDS,
        seed=123,
    ),
    Mutation(
        "a heartbeat does not prolong its member's session",
        "G24",
        f"{_ASSIGNED}/consumers.py",
        "        restart_session(turn, group, request.member)\n    says_nothing",
        "        if request.epoch == JOINS:\n"
        "            restart_session(turn, group, request.member)\n    says_nothing",
        workloads=_KINDS,
        seed=42,
    ),
    Mutation(
        "a member with its previous epoch keeps what was taken from it",
        "G24",
        _BEATS,
        " and request.owned is not None and all(key in member.assigned for key in request.owned):\n",
        ":\n",
        workloads=_KINDS,
    ),
    Mutation(
        "a coordinator that takes over begins the epochs anew",
        "G25",
        _LOADING,
        "            group.epoch, group.stored_hash = epoch, topics_hash\n",
        "            group.epoch, group.stored_hash = 1, topics_hash\n",
        workloads=_KINDS,
        seed=47,
    ),
    Mutation(
        "a heartbeat is answered though its change was not written",
        "G25",
        f"{_ASSIGNED}/writing.py",
        "    if error is not None:\n        # Later",
        "    if error is not None and not answers:\n        # Later",
        workloads=_KINDS,
        seed=74,
    ),
    Mutation(
        "what could not be written is not written with the next change",
        "G25",
        f"{_ASSIGNED}/writing.py",
        "        change.again(consumers.unsure)\n",
        "",
        workloads=_KINDS,
    ),
    Mutation(
        "a heartbeat is answered before its change is in the log",
        "G25",
        f"{_ASSIGNED}/writing.py",
        "        consumers.writes[turn.append(group, records, settled)] = answers or []\n",
        "        consumers.writes[turn.append(group, records, settled)] = []\n"
        "        _answer(turn, answers or [])\n",
        workloads=_KINDS,
        seed=47,
    ),
    Mutation(
        "a step takes what stays in the target",
        "G26",
        _STEP,
        "    kept = {key: epoch for key, epoch in member.assigned.items() if key in wanted}\n",
        "    kept = {key: epoch for key, epoch in member.assigned.items() if key in wanted}\n"
        "    kept = kept if member.epoch == target.epoch else {}\n",
        workloads=_KINDS,
        seed=42,
    ),
    Mutation(
        "a coordinator that takes over does not look at topics before a member goes a step",
        "G26",
        _HANDLERS,
        "[*topics, *by_pattern, *partition.unseen(request.group)]",
        "[*topics, *by_pattern]",
        workloads=_KINDS,
    ),
    Mutation(
        "a coordinator that takes over forgets the targets",
        "G26",
        _LOADING,
        "            group.targets[member_id] = partitions\n",
        "            group.targets[member_id] = frozenset()\n",
        workloads=_KINDS,
        seed=47,
    ),
    Mutation(
        "a commit of an earlier epoch counts for what was taken away",
        "G27",
        _FENCE,
        "    if not older or not all(_has_since(group, member, name, epoch) for name in names):\n",
        "    if not older:\n",
        workloads=_KINDS,
    ),
    Mutation(
        "a commit of a member that is out is taken",
        "G27",
        _FENCE,
        "    member = _member(group, member_id)\n    if member.classic",
        "    if member_id not in group.members:\n        return\n"
        "    member = _member(group, member_id)\n    if member.classic",
        workloads=_KINDS,
    ),
    Mutation(
        "a coordinator that takes over watches no sessions",
        "G28",
        f"{_ASSIGNED}/consumers.py",
        "        restart_session(turn, group, member.member)\n        follow",
        "        follow",
        workloads=_KINDS,
        seed=47,
    ),
    Mutation(
        "the partitions of a member that is out go to no other one",
        "G28",
        f"{_CORE}/departures.py",
        '    change.bump(f"member {member.instance or member.member} {why}", member.member)\n',
        "",
        workloads=_KINDS,
        seed=42,
    ),
    Mutation(
        "a topic that grows begins no epoch",
        "G28",
        _CHANGE,
        "        news = [name for name in sorted(topics) if name in before and",
        "        news = [name for name in sorted(topics) if not name and",
        workloads=_KINDS,
        seed=123,
    ),
)
