"""Scenes of groups whose coordinator assigns, as texts to be reviewed (`scenarios`).

A line is a call, and those below it with more space say what came of it:

    topic t 4             a topic has that many partitions; 0: it is deleted
    A joins t u           with `as i` as that instance, with `by range` it asks for that assignor
    A beats               a heartbeat without news
    A gives               stops what it may not read, and says what it still reads
    A subscribes to u     with news
    A leaves, A is away   for good, or as an instance that returns
    K enters t            a client of the classic protocol; with `cooperatively`, with `as i`
    K acts                all that such a client can do now
    K beats               its heartbeat alone
    K quits               it leaves
    46 s pass             without any call
    the coordinator moves
    the next write fails
    commit A 2 t-0        a commit in this epoch
    state                 the group as its coordinator has it
"""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.broker.core.groups.effects import EventKind, GroupEvent
from strandline.broker.core.groups.requests import Commit
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import (
    CommittedOffset,
    ConsumerBeat,
    OffsetCommit,
)
from tests.broker.core.consumer_groups.classic_client import ClassicClient
from tests.broker.core.consumer_groups.play import GROUP, LIMITS_HERE, Play

SCENES = sorted((Path(__file__).parent / "scenarios").rglob("*.txt"))


def said(event: GroupEvent) -> bool:
    """Events of members that others say as well; `test_news` has them."""
    return bool(event.type) and event.kind is not EventKind.REBALANCE_STARTED


class Scene:
    def __init__(self) -> None:
        self.play = Play()
        self.failing = False

    def outcomes(self, line: str) -> list[str]:
        """What came of one call."""
        events = len(self.play.stage.events)
        if self.failing:
            self.play.stage.writing = False
        answer = self._done(line.split())
        if self.failing and line != "the next write fails":
            token = str(self.play.stage.asked)
            while self.play.stage.wanted:
                self.play.stage.failed()
            self.play.stage.writing, self.failing = True, False
            answer = [self._said(self.play.stage.answers[token])]
        news = [event.reason for event in self.play.stage.events[events:] if event.reason and not said(event)]
        return [*(f"because {reason}" for reason in news), *answer]

    def _done(self, words: list[str]) -> list[str]:
        play = self.play
        match words:
            case ["topic", name, partitions]:
                play.make(name, int(partitions))
                play.look()
            case [name, "joins", *topics]:
                more = {}
                if "as" in topics:
                    more["instance"] = topics[topics.index("as") + 1]
                if "by" in topics:
                    more["assignor"] = topics[topics.index("by") + 1]
                named = tuple(word for word in topics if len(word) == 1 and word not in more.values())
                return [self._said(play.join(name, named, **more))]
            case [name, "enters", *words]:
                instance = words[words.index("as") + 1] if "as" in words else None
                wanted = tuple(word for word in words if len(word) == 1 and word != instance)
                cooperative = "cooperatively" in words
                client = ClassicClient(play, name, wanted, cooperative=cooperative, instance=instance)
                play.classic[name] = client
                return client.act()
            case [name, "acts"]:
                return play.classic[name].act()
            case [name, "quits"]:
                play.classic[name].leave()
            case [name, "beats"] if name in play.classic:
                return [play.classic[name].beat()]
            case [name, "beats"]:
                return [self._said(play.beat(name))]
            case [name, "gives"]:
                return [self._said(play.reconcile(name))]
            case [name, "subscribes", "to", *topics]:
                said = play.clients[name]
                return [self._said(play.ask(said, said.epoch, topics=tuple(topics)))]
            case [name, "leaves"]:
                return [self._said(play.ask(play.clients[name], -1))]
            case [name, "is", "away"]:
                return [self._said(play.ask(play.clients[name], -2))]
            case [seconds, "s", "pass"]:
                play.stage.later(float(seconds))
            case ["the", "coordinator", "moves"]:
                play.stage = play.stage.elsewhere(limits=LIMITS_HERE)
            case ["the", "next", "write", "fails"]:
                self.failing = True
            case ["commit", member, epoch, partition]:
                return [self._commit(member, int(epoch), partition)]
            case ["state"]:
                return self._state()
            case _:
                raise ValueError(f"{' '.join(words)} is no call")
        return []

    def _said(self, answer: ConsumerBeat | StrandlineError | None) -> str:
        if answer is None:
            return "waits"
        if isinstance(answer, StrandlineError):
            return type(answer).__name__
        if answer.assignment is None:
            return f"epoch {answer.epoch}"
        names = " ".join(map(self.play.name_of, answer.assignment)) or "nothing"
        return f"epoch {answer.epoch}: {names}"

    def _commit(self, member: str, epoch: int, partition: str) -> str:
        topic, _, number = partition.partition("-")
        offsets = {TopicPartition(topic, int(number)): CommittedOffset(1)}
        token = self.play.stage.ask(Commit(OffsetCommit(GROUP, member, epoch, offsets)))
        answer = self.play.stage.answers[token]
        return type(answer).__name__ if isinstance(answer, StrandlineError) else "committed"

    def _state(self) -> list[str]:
        found = self.play.described()
        if found is None:
            return self._classic_state()
        lines = [f"{found.state}, epoch {found.epoch}, target {found.target_epoch}"]
        for member in found.members:
            has = " ".join(map(self.play.name_of, member.assigned)) or "nothing"
            gives = "".join(f" -{self.play.name_of(key)}" for key in member.revoking)
            kind = "classic, " if member.classic else ""
            lines.append(f"{member.member} {member.epoch} {kind}{member.state}: {has}{gives}")
        return lines

    def _classic_state(self) -> list[str]:
        found = self.play.stage.found(GROUP)
        if found is None:
            return ["no group"]
        members = ", ".join(member.member for member in found.members)
        return [f"classic, {found.state}, generation {found.generation}: {members}"]


@pytest.mark.parametrize("path", SCENES, ids=lambda path: path.stem)
def test_scene(path: Path) -> None:
    """KIP-848; each scene says in its first lines what it shows."""
    scene, lines = Scene(), list[str]()
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            lines.append(line)
        elif not line.startswith(" "):
            lines += [line, *(f"    {each}" for each in scene.outcomes(line))]
    assert "\n".join(lines) + "\n" == path.read_text()
