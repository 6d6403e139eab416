"""Errors between Spark and strandline. Spark wraps exceptions of a source, so each message is complete."""

from __future__ import annotations

from strandline.errors import Outcome, SettingsError, StrandlineError


class InvalidOption(SettingsError):
    """An option of the source or the sink is invalid; the message names it, its value, and what to change."""


class InvalidSchema(StrandlineError):
    """The requested or given columns are not those of the source or the sink."""


class DataLost(StrandlineError):
    """Records to be read are no longer in the log."""


class ReadStalled(StrandlineError):
    """No record of a range arrived within `pollTimeoutMs`, and nothing shows that it is lost."""

    outcome = Outcome.RETRIABLE


class NoOffset(StrandlineError):
    """Every record is older than the starting time."""
