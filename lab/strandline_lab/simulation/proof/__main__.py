"""Proves what the simulation can see: `make simulate-proof`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TextIO

from strandline_lab.simulation.proof.mutation import Mutation
from strandline_lab.simulation.proof.mutations.every import MUTATIONS
from strandline_lab.simulation.proof.seeing import SECONDS, SEEDS, Seen, look_again, look_for


def main() -> int:
    """Print the table, in the order of the mutations. Returns 1 if one was not found."""
    parser = argparse.ArgumentParser(prog="simulate-proof", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows or families, as H3 or T")
    parser.add_argument("--known", action="store_true", help="run only the seed recorded with each mutation")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds for each mutation (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of faults, virtual (%(default)s)")
    args = parser.parse_args()
    chosen = [
        each
        for each in MUTATIONS
        if (not args.rows or {each.row, each.row[0]} & set(args.rows))
        and not (args.known and each.seed is None)
    ]

    def look(mutation: Mutation) -> Seen:
        try:
            if args.known:
                return look_again(mutation, args.seconds)
            return look_for(mutation, args.seeds, args.seconds, args.first, report=_progress(sys.stderr))
        except (RuntimeError, ValueError) as error:
            return Seen(mutation, check="error", sentence=str(error))

    print("| row | mutation | seed | seeds run | CPU s | what the judge said |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    missed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for seen in pool.map(look, chosen):
            print(_row(seen), flush=True)
            missed += seen.seed is None
    print(f"{len(chosen) - missed} of {len(chosen)} mutations found", file=sys.stderr)
    return 1 if missed else 0


def _progress(out: TextIO) -> Callable[[Seen], None]:
    def report(seen: Seen) -> None:
        print(f"  {seen.mutation.row} {seen.mutation.name}: {seen.tried} seeds run", file=out, flush=True)

    return report


def _row(seen: Seen) -> str:
    seed = "not found" if seen.seed is None else str(seen.seed)
    said = f"{seen.check}: {seen.sentence}" if seen.check else ""
    cells = (seen.mutation.row, seen.mutation.name, seed, str(seen.tried), f"{seen.cpu_s:.0f}", said)
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
