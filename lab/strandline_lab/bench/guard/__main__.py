"""`python -m strandline_lab.bench.guard`: measures two states of the repository in turns.

Exit status 0: no figure is slower beyond the bound; 1: one is; 2: they cannot be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strandline_lab.bench.guard.comparison import (
    BOUND,
    COLUMNS,
    Comparison,
    Measure,
    NotMeasured,
    Side,
    compare,
)
from strandline_lab.bench.guard.figures import FIGURES, MEASURED_BY, Figure
from strandline_lab.bench.guard.intervals import PAIRS_MIN
from strandline_lab.bench.guard.trees import LOCK, Repository, Tree, UnknownTree
from strandline_lab.bench.report import machine, table
from strandline_lab.bench.runs import output_of

ROOT: Final = Path(__file__).resolve().parents[4]
ROUNDS: Final = 8
SLOWER: Final = 1
NOT_COMPARED: Final = 2


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with a tree's files, and its own code run there."""

    folder: Path

    def environment(self) -> Mapping[str, str]:
        """This process's, with the tree's code before any other."""
        return {**os.environ, "PYTHONPATH": f"{self.folder}{os.pathsep}{self.folder / 'lab'}"}

    async def run(self, arguments: Sequence[str]) -> Mapping[str, Any]:
        """The JSON object that a command prints. Raises NotMeasured, also if it prints none."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments,
            cwd=self.folder, env=self.environment(), stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        try:
            found: Mapping[str, Any] = json.loads(await output_of(process, " ".join(arguments)))
        except RuntimeError as error:
            raise NotMeasured(str(error)) from None
        except ValueError:
            raise NotMeasured(
                f"{' '.join(arguments)} prints no figures: {self.folder.name} lacks it"
            ) from None
        return found

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[str]:
        """Serves a cluster of the tree's code; its bootstrap. Raises NotMeasured."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", str(Path(__file__).with_name("cluster.py")),
            cwd=self.folder, env=self.environment(), stdin=PIPE, stdout=PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = await process.stdout.readline()
            if not line:
                raise NotMeasured("the cluster did not start: its error output is above")
            found = json.loads(line)
            for code in found["code"]:
                if not Path(code).is_relative_to(self.folder):
                    raise NotMeasured(f"{self.folder.name} lacks a package: it would measure with {code}")
            yield found["bootstrap"]
        finally:
            process.stdin.close()
            await process.wait()


@asynccontextmanager
async def round_on(checkouts: Mapping[Side, Checkout]) -> AsyncIterator[Measure]:
    """Serves a cluster of each tree for one round."""
    async with AsyncExitStack() as serving:
        bootstraps = {
            side: await serving.enter_async_context(checkout.cluster())
            for side, checkout in checkouts.items()
        }

        async def measure(side: Side, figure: Figure) -> float:
            where = ("--bootstrap", bootstraps[side]) if figure.on_cluster else ()
            found = await checkouts[side].run([*figure.command, *where])
            return float(found[figure.key])

        yield measure


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def guard(repository: Repository, trees: Mapping[Side, Tree], rounds: int) -> list[Comparison]:
    """Unpacks both trees, and compares them. Raises NotMeasured."""
    with tempfile.TemporaryDirectory(prefix="strandline-guard-") as folder:
        checkouts = {side: Checkout(Path(folder).resolve() / side.value) for side in Side}
        for side, checkout in checkouts.items():
            repository.unpack(trees[side], checkout.folder)
        return await compare(FIGURES, rounds, lambda: round_on(checkouts), tell)


def show(trees: Mapping[Side, Tree], compared: Sequence[Comparison], bound: float) -> int:
    """Prints the table and the findings. Returns the exit status."""
    print(f"\n## {trees[Side.NEW].name} beside {trees[Side.OLD].name}\n\n{machine()}; `make bench-guard`\n")
    table(COLUMNS, [each.row() for each in compared])
    slower = [each.figure.name for each in compared if each.is_beyond(bound)]
    for name in slower:
        print(f"\nslower than {bound:g} of the old speed: {name}")
    return SLOWER if slower else 0


def rounds_from(text: str) -> int:
    rounds = int(text)
    if rounds < PAIRS_MIN:
        raise argparse.ArgumentTypeError(f"fewer than {PAIRS_MIN} rounds show no difference, however large")
    return rounds


def main() -> int:
    """Compares what the command line says. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m strandline_lab.bench.guard", description="Is a commit slower than main?"
    )
    parser.add_argument("--commit", help="default: the working tree, with what is not committed")
    parser.add_argument("--base", default="main", help="what it is compared with; default: main")
    parser.add_argument("--rounds", type=rounds_from, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument(
        "--bound",
        type=float,
        default=BOUND,
        help=f"share of the old speed that is fast enough; default: {BOUND}",
    )
    given = parser.parse_args()
    repository = Repository(ROOT)
    try:
        new = repository.working_tree() if given.commit is None else repository.tree(given.commit)
        trees = {Side.OLD: repository.tree(given.base), Side.NEW: new}
        if repository.differing(trees[Side.OLD], new, [LOCK]):
            tell(f"{LOCK} differs: this environment would measure one of the two with the other's libraries")
            return NOT_COMPARED
        if trees[Side.OLD].id == new.id:
            tell("both are the same: what differs, differs by chance")
        for path in repository.differing(trees[Side.OLD], new, MEASURED_BY):
            tell(f"{path} differs: it may measure another thing than before")
        compared = asyncio.run(guard(repository, trees, given.rounds))
    except (UnknownTree, NotMeasured) as error:
        tell(str(error))
        return NOT_COMPARED
    return show(trees, compared, given.bound)


if __name__ == "__main__":
    sys.exit(main())
