"""Finds which tests hold which row of docs/correctness.md, and lists them in docs/correctness-tests.md.

A test names its rows: its docstring (or that of its class or module) cites "CORRECTNESS T1", or the row in
parentheses, "(T1, H6)", or begins with it, "T1: …", or its name begins with `test_t1_`. A row without a test
is an error. So is a row without a test in `make test`, because each of its tests has the mark `slow` or
`containers`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from functools import cache
from pathlib import Path
from typing import TypeGuard

CITATION = re.compile(r"CORRECTNESS\s+((?:(?:[A-Z]\d+)(?:\s*(?:,\s*and|,|and|/|–|-)\s*)?)+)")
IN_PARENTHESES = re.compile(r"\(([^()]*)\)")
AT_THE_BEGINNING = re.compile(r"\A([A-Z]\d+(?:, [A-Z]\d+)*)(?::|\Z)")
ROW = re.compile(r"\b([THIEQGSPXZAKWC])(\d{1,2})(?:\s*[–-]\s*[THIEQGSPXZAKWC]?(\d{1,2}))?\b")
NAMED = re.compile(r"^test_([a-z]\d+)_")
LEFT_OUT = {"slow", "containers"}
"""Marks of tests that `make test` does not run."""
LINE = re.compile(r"^\| (?P<row>[A-Z]\d+) \|")
BEGIN = """\
# Tests behind docs/correctness.md

For each row of [correctness.md](correctness.md), the tests that cite it. `make docs` makes this page from the
tests."""


def cited(text: str) -> set[str]:
    """The rows that a docstring cites; "E8–E12" means all five."""
    rows: set[str] = set()
    for group in CITATION.findall(text) + IN_PARENTHESES.findall(text) + AT_THE_BEGINNING.findall(text):
        for letter, first, last in ROW.findall(group):
            rows |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return rows


def _claims(node: ast.AST, where: str) -> Iterator[tuple[str, str]]:
    """Pairs of row and test for one module or class, and its contents."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        rows = cited(ast.get_docstring(child) or "")
        if named := NAMED.match(child.name):
            rows.add(named.group(1).upper())
        for row in rows:
            yield row, f"{where}::{child.name}"
        if isinstance(child, ast.ClassDef):
            yield from _claims(child, f"{where}::{child.name}")


@cache
def _modules(root: Path) -> dict[str, ast.Module]:
    """Each test module by its path below `root`, in order. Parsed once, since the checks ask several
    times."""
    return {
        str(path.relative_to(root)): ast.parse(path.read_text(), str(path))
        for path in sorted((root / "tests").rglob("test_*.py"))
    }


def holders(root: Path) -> dict[str, list[str]]:
    """For each row, the tests that cite it, as `tests/…/test_x.py::test_y`, in order."""
    held: defaultdict[str, set[str]] = defaultdict(set)
    for where, tree in _modules(root).items():
        for row in cited(ast.get_docstring(tree) or ""):
            held[row].add(where)
        for row, test in _claims(tree, where):
            held[row].add(test)
    return {row: sorted(tests) for row, tests in held.items()}


def _is_left_out(marks: Iterable[ast.expr]) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in LEFT_OUT for mark in marks for node in ast.walk(mark)
    )


def _left_out(body: list[ast.stmt], where: str, above: bool) -> Iterator[str]:
    """The tests of one module or class that `make test` does not run; the module or class too, if that is all
    of them.

    A mark on one case of a parametrization does not count.
    """
    own = [node.value for node in body if isinstance(node, ast.Assign) and _names_marks(node)]
    whole = above or _is_left_out(own)
    tests = [node for node in body if _is_test(node)]
    out: list[str] = []
    for test in tests:
        marks = [mark for mark in test.decorator_list if "parametrize" not in ast.unparse(mark)]
        below = [f"{where}::{test.name}"] if whole or _is_left_out(marks) else []
        if isinstance(test, ast.ClassDef):
            below = list(_left_out(test.body, f"{where}::{test.name}", bool(below)))
        out += below
    yield from out
    if whole or (tests and all(f"{where}::{test.name}" in out for test in tests)):
        yield where


def _names_marks(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    if isinstance(node, ast.ClassDef):
        return node.name.startswith("Test")
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def left_out(root: Path) -> set[str]:
    """The tests that `make test` does not run, named as `holders` names them."""
    return {name for where, tree in _modules(root).items() for name in _left_out(tree.body, where, False)}


def cell(tests: list[str]) -> str:
    """The tests of one row: each by its name, each file linked once."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        path, _, name = test.partition("::")
        files[path] += [f"`{name.rpartition('::')[2]}`"] if name else []
    return "; ".join(
        f"[{path.removeprefix('tests/')}](../{path}): {', '.join(names) or 'all of it'}"
        for path, names in files.items()
    )


def listed(correctness: str, held: dict[str, list[str]]) -> str:
    """The text of docs/correctness-tests.md: the rows of docs/correctness.md, each with its tests."""
    lines = [BEGIN]
    for line in correctness.splitlines():
        if line.startswith("## "):
            lines += ["", line, "", "| row | held by |", "| --- | --- |"]
        elif match := LINE.match(line):
            lines.append(f"| {match['row']} | {cell(held.get(match['row'], []))} |")
    return "\n".join(lines) + "\n"


def problems(correctness: str, held: dict[str, list[str]], left_out: Set[str]) -> Iterator[str]:
    """Rows that are listed twice or have no fast test, and citations of unknown rows."""
    named = [match["row"] for match in map(LINE.match, correctness.splitlines()) if match]
    for row in dict.fromkeys(named):
        if named.count(row) != 1:
            yield f"row {row} stands {named.count(row)} times"
        elif row not in held:
            yield f"row {row}: no test cites it"
    for row in sorted(held.keys() - set(named)):
        yield f"row {row}: cited by {', '.join(held[row])}, but not listed"
    for row, tests in sorted(held.items()):
        if all(test in left_out for test in tests):
            yield f"row {row}: every test that holds it is slow; `make test` needs one too"
