"""`python -m strandline_lab.bench NAME`: every name leads to a measurement."""

from __future__ import annotations

import inspect

from strandline_lab.bench.__main__ import MODULES, measurements
from strandline_lab.bench.perf_tables import TABLES
from strandline_lab.perf.command import perf


def test_each_measurement_can_be_found_and_takes_a_number_of_runs() -> None:
    found = measurements()
    assert found.keys() == {*MODULES, *(table.name for table in TABLES)}
    for measure in found.values():
        assert inspect.iscoroutinefunction(measure)
        assert inspect.signature(measure).parameters["runs"].default >= 1


def test_the_questions_of_a_table_are_valid_commands() -> None:
    for table in TABLES:
        for question in table.questions:
            name, *arguments = question.arguments
            perf.commands[name].make_context(name, arguments)
