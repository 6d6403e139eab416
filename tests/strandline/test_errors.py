"""Errors keep their class over the wire."""

from __future__ import annotations

from strandline.errors import ErrorCode, error_for


def test_every_number_has_its_class() -> None:
    """Without one, a caller that acts on the class meets UnknownServerError."""
    codes = [code for code in ErrorCode if code is not ErrorCode.NONE]
    assert [error_for(code, "").code for code in codes] == codes
