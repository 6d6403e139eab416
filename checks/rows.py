"""Which tests hold which row of docs/correctness.md.

A test says so itself: its docstring (or that of its class or module) cites "CORRECTNESS T1", or names the row
in parentheses, "(T1, H6)", or its name begins with `test_t1_`. The last cell of a row lists these tests; a
row that no test cites says "open:" and why. At least one of a row's tests runs with `make test`: none of the
marks `slow` and `containers` is on it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import TypeGuard

LAST = {"T": 12, "H": 10, "I": 11, "E": 18, "Q": 7, "G": 16, "S": 9, "P": 4, "X": 6}
ROWS = [f"{letter}{number}" for letter, last in LAST.items() for number in range(1, last + 1)]

CITATION = re.compile(r"CORRECTNESS\s+((?:(?:[A-Z]\d+)(?:\s*(?:,\s*and|,|and|/|–|-|.\S*)\s*)?)+)")
IN_PARENTHESES = re.compile(r"\(([^()]*)\)")
ROW = re.compile(r"\b([THIEQGSPX])(\d{1,2})(?:\s*[–-]\s*[THIEQGSPX]?(\d{1,2}))?\b")
NAMED = re.compile(r"^test_([a-z]\d+)_")
LEFT_OUT = {"slow", "containers"}
"""Marks of tests that `make test` leaves out."""
LINE = re.compile(r"^\| (?P<row>[A-Z]\d+) \|(?P<middle>.*)\| (?P<held>[^|]*) \|$")


def cited(text: str) -> set[str]:
    """The rows that a docstring cites; "E8–E12" stands for all five."""
    rows: set[str] = set()
    for group in CITATION.findall(text) + IN_PARENTHESES.findall(text):
        for letter, first, last in ROW.findall(group):
            rows |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return rows


def _claims(node: ast.AST, where: str) -> Iterator[tuple[str, str]]:
    """Pairs of row and test for one module or class, and all that it holds."""
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


def holders(root: Path) -> dict[str, list[str]]:
    """For each row, the tests that say they hold it, as `tests/…/test_x.py::test_y`, in order."""
    held: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted((root / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(), str(path))
        where = str(path.relative_to(root))
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
    """What `make test` leaves out of one module or class; the whole too, if that is all of its tests.

    A mark on one case of a parametrization leaves the others in.
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
    """The tests that `make test` leaves out, named as `holders` names them."""
    return {
        name
        for path in (root / "tests").rglob("test_*.py")
        for name in _left_out(ast.parse(path.read_text(), str(path)).body, str(path.relative_to(root)), False)
    }


def cell(tests: list[str]) -> str:
    """The last cell of a row: each test by its name, each file linked once."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        path, _, name = test.partition("::")
        files[path] += [f"`{name.rpartition('::')[2]}`"] if name else []
    return "; ".join(
        f"[{path.removeprefix('tests/')}](../{path}): {', '.join(names) or 'all of it'}"
        for path, names in files.items()
    )


def rewrite(page: str, held: dict[str, list[str]]) -> str:
    """The page with the last cell of each row as the tests have it now."""

    def line(text: str) -> str:
        match = LINE.match(text)
        if not match or match["row"] not in ROWS:
            return text
        if tests := held.get(match["row"]):
            holding = cell(tests)
        else:
            holding = match["held"] if match["held"].startswith("open: ") else "open: no test yet"
        return f"| {match['row']} |{match['middle']}| {holding} |"

    return "".join(line(text.rstrip("\n")) + "\n" for text in page.splitlines(keepends=True))


def problems(page: str, held: dict[str, list[str]], left_out: Set[str]) -> Iterator[str]:
    """Rows that are missing, stand twice, say neither which test holds them nor why they are open, or have no
    test that `make test` runs."""
    lines = [match for match in map(LINE.match, page.splitlines()) if match]
    named = [match["row"] for match in lines]
    for row in ROWS:
        if named.count(row) != 1:
            yield f"row {row} stands {named.count(row)} times, not once"
    for match in lines:
        if match["row"] in ROWS and match["row"] not in held and not match["held"].startswith("open: "):
            yield f"row {match['row']}: no test cites it, and it does not say why it is open"
    for row in sorted(held.keys() - set(named)):
        yield f"row {row}: cited by {', '.join(held[row])}, but not listed"
    for row, tests in sorted(held.items()):
        if all(test in left_out for test in tests):
            yield f"row {row}: every test that holds it is slow; `make test` needs one too"
