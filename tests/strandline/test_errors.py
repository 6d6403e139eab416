"""Errors keep their class over the wire, and all have one import path."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules

from strandline import errors
from strandline.errors import ErrorCode, RequestTimedOut, StorageFailed, StrandlineError, error_for


def test_every_number_has_its_class() -> None:
    """Without one, a caller that acts on the class meets UnknownServerError."""
    codes = [code for code in ErrorCode if code is not ErrorCode.NONE]
    assert [error_for(code, "").code for code in codes] == codes


def test_of_two_classes_with_a_number_the_wire_has_the_wider_one() -> None:
    assert type(error_for(ErrorCode.REQUEST_TIMED_OUT, "")) is RequestTimedOut
    assert type(error_for(ErrorCode.KAFKA_STORAGE_ERROR, "")) is StorageFailed


def test_every_error_can_be_imported_from_the_package() -> None:
    modules = [import_module(f"{errors.__name__}.{found.name}") for found in iter_modules(errors.__path__)]
    classes = {
        cls.__name__: cls
        for module in modules
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, StrandlineError)
    }
    missing = {name for name, cls in classes.items() if getattr(errors, name, None) is not cls}
    assert missing == {"Retriable", "Unknown"}, "these two are bases, for the package alone"
