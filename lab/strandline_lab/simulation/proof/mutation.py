"""A mutation: a small change of the real code that breaks a rule of docs/correctness.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mutation:
    """Replaces a text that occurs exactly once in a file."""

    name: str
    """What the broken code does, in a few words."""
    row: str
    """The row of docs/correctness.md whose rule it breaks."""
    path: str
    """The file, from the top of the repository."""
    old: str
    new: str
    faults: tuple[str, ...] = ()
    """Seeds without one of these kinds of faults cannot show it, and are skipped; empty: any seed may."""
    workloads: tuple[str, ...] = ()
    """Seeds without one of these kinds of workloads are skipped too."""
    seed: int | None = None
    """The first seed of `SEEDS` that showed it when they were last searched."""
    stalls: bool = False
    """It breaks a rule of progress: what shows it is that something does not work in time. Any other has to
    be found by the rule that it breaks."""

    def occurrences(self, tree: Path) -> int:
        """How often the old text occurs in this tree: 1 unless the code has changed."""
        return (tree / self.path).read_text().count(self.old)

    def apply(self, tree: Path) -> None:
        """Change the file in this tree. Raises ValueError unless the old text occurs exactly once."""
        if (count := self.occurrences(tree)) != 1:
            raise ValueError(
                f"{self.name}: {self.path} has the old text {count} times, not once: {self.old!r}"
            )
        file = tree / self.path
        file.write_text(file.read_text().replace(self.old, self.new))
