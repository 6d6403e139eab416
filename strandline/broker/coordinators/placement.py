"""Maps a key, a group or a transactional id, to its partition of the coordinators' topic."""

from __future__ import annotations


def partition_of(key: str, partitions: int) -> int:
    """As in Kafka, so that its clients would find the same coordinators: Java's hash of the text
    (over UTF-16 units), its sign bit cleared, modulo the number of partitions."""
    units = key.encode("utf-16-be", "surrogatepass")
    number = 0
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return (number & 0x7FFFFFFF) % partitions
