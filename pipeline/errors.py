"""What goes wrong between Spark and strandline. Spark wraps what a source raises: each message says all."""

from __future__ import annotations

from strandline.errors import Outcome, SettingsError, StrandlineError


class InvalidOption(SettingsError):
    """An option of the source or the sink is wrong; the message names it, its value, and what to change."""


class InvalidSchema(StrandlineError):
    """The columns asked for, or given, are not those of the source or the sink."""


class DataLost(StrandlineError):
    """Records that were to be read are in the log no more."""


class ReadStalled(StrandlineError):
    """Nothing of a range came for as long as `pollTimeoutMs` allows, and nothing says that it is lost."""

    outcome = Outcome.RETRIABLE


class NoOffset(StrandlineError):
    """No record is as young as the time to begin at."""
