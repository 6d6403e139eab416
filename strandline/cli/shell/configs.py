"""Options that set configs by their names."""

from __future__ import annotations

from collections.abc import Iterable

import click


def named_values(
    _context: click.Context, _parameter: click.Parameter, values: Iterable[str]
) -> dict[str, str]:
    """Reads `k=v` pairs as a mapping."""
    configs: dict[str, str] = {}
    for value in values:
        name, equals, setting = value.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{value!r} is not of the form name=value")
        if name in configs:
            raise click.BadParameter(f"{name} is given twice")
        configs[name] = setting
    return configs
