"""What is wrong with a topology, or with a record that one of its operators made or was given."""

from __future__ import annotations

from strandline.errors import StrandlineError


class TopologyError(StrandlineError):
    """A topology cannot run as it is described; the message names what, and what to change."""


class RecordRefused(StrandlineError):
    """An operator cannot use a record: it has no key, or is no `Record` though a function made it."""
