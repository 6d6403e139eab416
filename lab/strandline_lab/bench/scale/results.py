"""Keeps measured steps in a JSON file: dimension → steps by size, each with its figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from strandline_lab.bench.scale.series import Step


def load(path: Path) -> dict[str, list[Step]]:
    """The steps of each dimension, by size; none if there is no such file."""
    if not path.exists():
        return {}
    return {
        name: [Step(int(size), figures) for size, figures in steps.items()]
        for name, steps in json.loads(path.read_text()).items()
    }


def keep(path: Path, dimension: str, steps: Sequence[Step]) -> None:
    """Puts these steps of one dimension into the file, instead of those of the same sizes."""
    every = load(path)
    merged = {step.size: step for step in (*every.get(dimension, ()), *steps)}
    every[dimension] = [merged[size] for size in sorted(merged)]
    written = {
        name: {
            str(step.size): {figure: float(f"{value:.4g}") for figure, value in step.figures.items()}
            for step in each
        }
        for name, each in every.items()
    }
    path.write_text(json.dumps(written, indent=1) + "\n")
