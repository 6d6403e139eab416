"""Errors of a topology, and of records that its operators return or get."""

from __future__ import annotations

from strandline.errors import StrandlineError


class TopologyError(StrandlineError):
    """A topology cannot run as described; the message names the problem and what to change."""


class RecordRefused(StrandlineError):
    """An operator cannot use a record: it has no key, or a function did not return a `Record`."""
