"""Clients never receive an impossible state of a partition."""

from __future__ import annotations

from strandline.vocabulary.metadata import PartitionMetadata


def test_a_leader_is_reported_as_one_of_its_isr_although_that_was_read_before_it_led() -> None:
    """A reassignment's new replica joins the ISR and leads at once: a broker that follows it knows the leader
    before it has read the ISR again."""
    before = PartitionMetadata(3, leader=2, leader_epoch=19, replicas=(3, 2), isr=(2,))
    assert before.led_by(3, 21) == PartitionMetadata(3, 3, 21, (3, 2), isr=(3, 2))


def test_an_isr_that_has_the_new_leader_stays_as_it_was_read() -> None:
    before = PartitionMetadata(0, leader=1, leader_epoch=4, replicas=(1, 2, 3), isr=(1, 3))
    assert before.led_by(3, 5) == PartitionMetadata(0, 3, 5, (1, 2, 3), isr=(1, 3))
