"""How many lines each package may have.

Nothing else stops a package from growing a little with each change. A ceiling is raised only by a commit
whose body says why the lines are worth it; a commit that removes lines lowers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

GENERATED: Final = "*_pb2*.py"

CEILINGS: Final[Mapping[str, int]] = {
    "strandline": 904,
    "strandline/adapters": 14_490,
    "strandline/auditing": 1_170,
    "strandline/broker": 45_800,
    "strandline/cli": 7_150,
    "strandline/client": 6_150,
    "strandline/config": 1_810,
    "strandline/console": 13_690,
    "strandline/consumer": 6_950,
    "strandline/controller": 9_450,
    "strandline/errors": 740,
    "strandline/local": 2_490,
    "strandline/pipeline": 7_760,
    "strandline/ports": 590,
    "strandline/producer": 3_220,
    "strandline/records": 1_670,
    "strandline/report": 680,
    "strandline/rpc": 0,
    "strandline/security": 3_800,
    "strandline/serving": 434,
    "strandline/simulation": 4_140,
    "strandline/streams": 6_750,
    "strandline/testing": 1_650,
    "strandline/vocabulary": 3_420,
    "lab/strandline_lab": 24,
    "lab/strandline_lab/auditing": 1_050,
    "lab/strandline_lab/bench": 6_390,
    "lab/strandline_lab/chaos": 6_410,
    "lab/strandline_lab/cli": 492,
    "lab/strandline_lab/conformance": 5_200,
    "lab/strandline_lab/core": 88,
    "lab/strandline_lab/interop": 2_320,
    "lab/strandline_lab/perf": 1_350,
    "lab/strandline_lab/report": 1_150,
    "lab/strandline_lab/simulation": 14_970,
    "tests": 149_320,
}
"""The lines of all .py files below a folder, at most. `strandline` and `lab/strandline_lab` are the files
beside their packages; generated files do not count."""

PARENTS: Final = ("strandline", "lab/strandline_lab")
"""Each folder in them is a package with a ceiling of its own."""


def packages(root: Path) -> Iterator[tuple[str, int]]:
    """Each package with its lines."""
    for name in PARENTS:
        parent = root / name
        yield name, _lines(parent.glob("*.py"))
        for folder in sorted(parent.iterdir()):
            if (folder / "__init__.py").is_file():
                yield f"{name}/{folder.name}", _lines(folder.rglob("*.py"))
    yield "tests", _lines((root / "tests").rglob("*.py"))


def problems(root: Path, ceilings: Mapping[str, int] = CEILINGS) -> list[str]:
    """Packages above their ceilings or without one, and ceilings without a package."""
    found = dict(packages(root))
    return [
        *_above(found, ceilings),
        *(f"{name} is no package: remove its ceiling" for name in ceilings if name not in found),
    ]


def _above(found: Mapping[str, int], ceilings: Mapping[str, int]) -> Iterator[str]:
    for name, lines in found.items():
        if (ceiling := ceilings.get(name)) is None:
            yield f"{name} has {lines:,} lines and no ceiling: add one to checks/ceilings.py"
        elif lines > ceiling:
            yield (
                f"{name} has {lines:,} lines, its ceiling is {ceiling:,}: remove what is not needed, "
                "or raise the ceiling in checks/ceilings.py in a commit whose body says why"
            )


def _lines(files: Iterator[Path]) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files if not file.match(GENERATED))
