"""The clients of one caller of the console."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.producer.producer import Producer


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of one caller: the cluster's ACLs and quotas decide what they may do."""

    admin: Admin
    """It runs. Do not stop it."""
    consumer: Callable[..., Consumer]
    """Takes settings. The consumer is not started yet."""
    producer: Callable[..., Producer]
    """As `consumer`."""
    address: str
    """Where the caller is."""
