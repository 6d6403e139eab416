"""`python -m checks [name…]`: runs the named checks, or all, and prints what each found."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from checks import ceilings, docs, plain, protobuf, tidy

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

Check = Callable[[], Sequence[str]]
"""Returns the problems, a line each; empty if there are none."""


def tool(name: str, *arguments: str) -> Check:
    """A check by an installed tool; it fails if the tool's exit status is not 0."""

    def run() -> Sequence[str]:
        done = subprocess.run(
            [BIN / name, *arguments],
            cwd=ROOT,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return [] if done.returncode == 0 else done.stdout.rstrip().splitlines() or ["failed without output"]

    return run


CHECKS: dict[str, Check] = {
    "format": tool("ruff", "format", "--check", "--quiet", "--output-format", "concise", "."),
    "lint": tool("ruff", "check", "--output-format", "concise", "."),
    "types": tool("mypy"),
    "layers": tool("lint-imports", "--no-logo"),
    "protobuf": lambda: protobuf.problems(ROOT),
    "docs": lambda: docs.problems(ROOT),
    "tidy": lambda: tidy.problems(ROOT),
    "ceilings": lambda: ceilings.problems(ROOT),
    "plain": lambda: [*plain.problems(ROOT)],
}


def main(names: Sequence[str]) -> int:
    unknown = sorted(set(names) - set(CHECKS))
    if unknown:
        print(f"unknown check {', '.join(unknown)}; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    failed = []
    for name in names or CHECKS:
        print(f"{name:9}", end=" ", flush=True)
        started = time.monotonic()
        try:
            found = CHECKS[name]()
        except Exception as error:  # a check that raises has failed; the others still run
            found = traceback.format_exception(error)
        print(f"{'FAILED' if found else 'ok':6} {time.monotonic() - started:5.1f} s", flush=True)
        for line in found:
            print(f"    {line.rstrip()}")
        if found:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "every check passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
