"""How much memory a local Spark is given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strandline.config.limits import MIB
from strandline.pipeline.spark.memory import driver_memory_mib, is_configured, machine_bytes

GIB = 1024 * MIB


@pytest.mark.parametrize(
    ("machine", "mib"), [(2 * GIB, 1_024), (6 * GIB, 1_536), (32 * GIB, 8_192), (256 * GIB, 8_192)]
)
def test_the_default_is_a_quarter_of_the_machines_memory_within_bounds(machine: int, mib: int) -> None:
    assert driver_memory_mib(machine) == mib


def test_a_container_that_has_less_than_the_machine_counts(tmp_path: Path) -> None:
    none, some = tmp_path / "none", tmp_path / "some"
    none.write_text("max\n")
    some.write_text(f"{3 * MIB}\n")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert machine_bytes([none, tmp_path / "nowhere"]) == machine
    assert machine_bytes([none, some]) == 3 * MIB


def test_a_setting_made_elsewhere_is_kept(tmp_path: Path) -> None:
    defaults = tmp_path / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    home = {"SPARK_HOME": str(tmp_path)}
    defaults.write_text("# spark.driver.memory 3g\nspark.driver.cores 2\n")
    assert not is_configured(home)
    assert not is_configured({})
    defaults.write_text("spark.driver.cores 2\nspark.driver.memory   3g\n")
    assert is_configured(home)
    defaults.write_text("spark.driver.cores=2\nspark.driver.memory=3g\n")
    assert is_configured(home)
    assert is_configured({"SPARK_CONF_DIR": str(defaults.parent)})
    assert is_configured({"SPARK_DRIVER_MEMORY": "3g"})
    assert is_configured({"PYSPARK_SUBMIT_ARGS": "--driver-memory 3g pyspark-shell"})
