"""What creating, altering, growing and deleting a topic would do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from strandline.client.admin.topics import PartitionDescription, TopicDescription
from strandline.console.core.changes import Effect, Table
from strandline.console.core.topics.config import MIN_INSYNC, default_of, value_of, words_of
from strandline.console.core.words import bytes_, counted, number
from strandline.errors import InvalidConfig, InvalidPartitions, InvalidRequest
from strandline.ids import NO_BROKER

CONFIG_LINES_MAX: Final = 50
"""Settings that one form may have."""


def config_of(text: str) -> dict[str, str]:
    """Reads settings, one `name=value` a line. Raises InvalidRequest."""
    config: dict[str, str] = {}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > CONFIG_LINES_MAX:
        raise InvalidRequest(f"config has {len(lines)} lines: give {CONFIG_LINES_MAX} at most")
    for line in lines:
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise InvalidRequest(f"config line {line!r}: give name=value")
        if name in config:
            raise InvalidRequest(f"config {name} is given twice")
        config[name] = value
    return config


def creation(
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    alive: Collection[int],
) -> Effect:
    """A new topic."""
    warnings = []
    if replication_factor == 1:
        warnings.append("Each record is on one broker: if its disk is lost, so is the record.")
    if replication_factor > len(alive):
        warnings.append(f"A partition gets more replicas than the {counted(len(alive), 'broker')} alive.")
    rows = [
        (setting, _with_words(setting, value), _with_words(setting, default_of(setting, replication_factor)))
        for setting, value in sorted(config.items())
    ]
    bound = value_of(MIN_INSYNC, config, replication_factor)
    return Effect(
        f"Create topic {name}",
        (
            f"Topic {name} gets {counted(partitions, 'partition')} with "
            f"{counted(replication_factor, 'replica')} each. The controller chooses their brokers.",
            f"Records with acks=all are accepted while a partition has at least {_replicas(bound)} in sync.",
        ),
        {"exists": False, "alive": sorted(alive)},
        (Table.of("Config", ("setting", "value", "default"), rows),) if rows else (),
        tuple(warnings),
    )


def alteration(topic: TopicDescription, to_set: Mapping[str, str], to_unset: Sequence[str]) -> Effect:
    """Other config. Raises InvalidRequest if nothing changes, InvalidConfig for an unknown name."""
    factor = replication_factor_of(topic)
    before = {each: value_of(each, topic.config, factor) for each in (*to_set, *to_unset)}
    after = {**to_set, **{each: default_of(each, factor) for each in to_unset}}
    clear = [each for each in to_unset if each not in topic.config]
    if clear:
        raise InvalidConfig(f"topic {topic.name} does not set {clear[0]}: it has its default already")
    same = [each for each in to_set if topic.config.get(each) == to_set[each]]
    if not after or same:
        raise InvalidRequest(
            f"topic {topic.name} has {same[0]}={to_set[same[0]]} already" if same else "no setting is changed"
        )
    rows = [
        (
            each,
            f"{_with_words(each, before[each])}, {'this topic' if each in topic.config else 'default'}",
            f"{_with_words(each, after[each])}, {'default' if each in to_unset else 'this topic'}",
        )
        for each in sorted(after)
    ]
    return Effect(
        f"Alter the config of topic {topic.name}",
        ("Each broker reads the new values a moment later.",),
        {"topic_id": topic.topic_id, "config": dict(topic.config)},
        (Table.of("Config", ("setting", "now", "after"), rows),),
        tuple(_doubts(topic, before, after)),
    )


def _doubts(topic: TopicDescription, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    doubts = []
    for name in ("retention.ms", "retention.bytes"):
        if name in after and _is_tighter(before[name], after[name]):
            doubts.append(
                f"{name} becomes {_with_words(name, after[name])}: older segments are deleted at the next "
                "check if the cleanup policy deletes, and they do not come back."
            )
    if MIN_INSYNC in after and after[MIN_INSYNC].isdecimal():
        bound = int(after[MIN_INSYNC])
        short = [each for each in topic.partitions if len(each.isr) < min(bound, len(each.replicas))]
        if short:
            doubts.append(
                f"{counted(len(short), 'partition')} of it {'have' if len(short) > 1 else 'has'} fewer than "
                f"{counted(bound, 'replica')} in sync now: records with acks=all are refused there."
            )
    if after.get("unclean.leader.election.enable") == "true":
        doubts.append("A replica that lacks committed records may then be elected: they are lost.")
    if "compact" in after.get("cleanup.policy", "") and "compact" not in before["cleanup.policy"]:
        doubts.append("Compaction keeps only the last record of each key; records without a key are refused.")
    return doubts


def growth(topic: TopicDescription, partitions: int) -> Effect:
    """More partitions. Raises InvalidPartitions unless it is more."""
    now = len(topic.partitions)
    if partitions <= now:
        raise InvalidPartitions(f"topic {topic.name} has {counted(now, 'partition')}: give a larger number")
    added = f"partition {now}" if partitions == now + 1 else f"partitions {now} to {partitions - 1}"
    return Effect(
        f"Grow topic {topic.name} to {counted(partitions, 'partition')}",
        (
            f"Topic {topic.name} has {counted(now, 'partition')}, and gets {added}, with "
            f"{counted(replication_factor_of(topic), 'replica')} each.",
            "Existing records stay where they are. The number of partitions cannot be lowered again.",
        ),
        {"topic_id": topic.topic_id, "partitions": now},
        warnings=(
            "Producers that choose the partition by the key send some keys to other partitions from then on: "
            "the records of such a key are in two partitions, and their order between the two is lost.",
        ),
    )


def deletion(topic: TopicDescription, starts: Mapping[int, int]) -> Effect:
    """The end of a topic. `starts`: where the log of a partition starts, as far as it is known.

    The number of records is no fact of the plan: producers may go on meanwhile.
    """
    rows = [
        (
            each.partition,
            _offsets(each, starts.get(each.partition)),
            bytes_(each.size_bytes),
            "none" if each.leader == NO_BROKER else each.leader,
        )
        for each in topic.partitions
    ]
    sizes = [each.size_bytes for each in topic.partitions if each.size_bytes is not None]
    unknown = len(topic.partitions) - len(sizes)
    held = f"{bytes_(sum(sizes))} on each replica" if sizes else "an unknown number of bytes"
    besides = f", besides {counted(unknown, 'partition')} of unknown size" if unknown and sizes else ""
    return Effect(
        f"Delete topic {topic.name}",
        (
            f"All records of topic {topic.name} are deleted with its "
            f"{counted(len(topic.partitions), 'partition')}: {held}{besides}.",
            "This cannot be undone. Producers and consumers of the topic fail.",
        ),
        {"topic_id": topic.topic_id, "partitions": len(topic.partitions)},
        (Table.of("Deleted partitions", ("partition", "offsets", "size", "leader"), rows),),
        typed=topic.name,
    )


def replication_factor_of(topic: TopicDescription) -> int:
    """The most replicas that a partition of it has."""
    return max((len(each.replicas) for each in topic.partitions), default=1)


def _offsets(partition: PartitionDescription, start: int | None) -> str:
    end = partition.log_end_offset
    return "unknown" if start is None or end is None else f"{number(start)} to {number(end)}"


def _replicas(bound: str) -> str:
    """As many replicas as a setting says, which may be no number: the controller refuses it then."""
    return "1 replica" if bound == "1" else f"{bound} replicas"


def _with_words(name: str, value: str) -> str:
    words = words_of(name, value)
    return f"{value} ({words})" if words else value


def _is_tighter(before: str, after: str) -> bool:
    """Whether a retention keeps less; -1 keeps everything."""
    try:
        old, new = int(before), int(after)
    except ValueError:
        return False
    return new >= 0 and (old < 0 or new < old)
