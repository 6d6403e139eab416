"""`strandline-lab simulate`: what it prints, its exit status, and what it keeps of a failing run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from strandline_lab.simulation.plan import Plan
from tests.strandline.cli.support.cli_process import LAB, Ended, ended, start_python, strandline
from tests.waiting import eventually


async def strandline_lab(*arguments: str, **environment: str) -> Ended:
    return await strandline(*arguments, stdin=b"", program=LAB, **environment)


async def test_sound_seeds_have_a_line_each() -> None:
    said = await strandline_lab("simulate", "--seed", "2", "--seeds", "2", "--seconds", "1", "--jobs", "2")
    assert said.status == 0, said.err
    assert sorted(line.partition(";")[0] for line in said.out.decode().splitlines()) == [
        "seed 2: sound",
        "seed 3: sound",
    ]
    assert said.err == "2 of 2 seeds were run, 0 failed\n"


async def test_the_environment_of_the_command_is_not_that_of_the_brokers() -> None:
    seed = ("simulate", "--seed", "2", "--seconds", "1")
    plain = await strandline_lab(*seed)
    changed = await strandline_lab(*seed, STRANDLINE_KAFKA_PORT="4444", STRANDLINE_CONFIG="/nowhere.toml")
    assert (changed.status, changed.out) == (0, plain.out), changed.err


async def test_no_other_seed_begins_after_the_time(tmp_path: Path) -> None:
    """But one is run, so that success says something."""
    fast = ("--seconds", "1", "--within", "0", "--out", str(tmp_path))
    said = await strandline_lab("simulate", "--seed", "2", "--seeds", "1000", *fast)
    assert (said.status, said.err) == (0, "1 of 1000 seeds were run, 0 failed\n")
    assert said.out.decode().startswith("seed 2: sound;")


async def test_a_seed_may_be_as_large_as_json_keeps_exactly() -> None:
    largest = 2**53 - 1
    said = await strandline_lab("simulate", "--seed", str(largest), "--seconds", "1")
    assert said.out.decode().startswith(f"seed {largest}: sound;")
    said = await strandline_lab("simulate", "--seed", str(largest), "--seeds", "2")
    assert said.status == 2
    assert f"2 seeds from {largest} on end at {largest + 1}, and the largest is {largest}" in said.err


async def test_a_failing_plan_is_kept_made_smaller_and_can_be_run_again(tmp_path: Path) -> None:
    """One broker can hold no topic with three replicas: this plan fails with any faults."""
    plan = Plan.drawn(1, 8.0).model_copy(update={"brokers": 1})
    assert plan.faults
    file = tmp_path / "one.json"
    file.write_text(plan.model_dump_json())
    said = await strandline_lab("simulate", "--plan", str(file), "--out", str(tmp_path), "-o", "json")
    assert said.status == 2
    [line] = said.objects
    [problem] = line["problems"]
    assert (line["seed"], line["ok"], problem["check"]) == (1, False, "healing")
    kept, smallest = tmp_path / "plan-one" / "plan.json", tmp_path / "plan-one" / "shrunk" / "plan.json"
    assert Plan.model_validate_json(kept.read_bytes()) == plan
    versions = json.loads(kept.with_name("result.json").read_text())["versions"]
    assert versions.keys() == {"python", "strandline", "cramjam"} and all(versions.values())
    shrunk = Plan.model_validate_json(smallest.read_bytes())
    assert (shrunk.faults, shrunk.seconds, shrunk.brokers) == ((), 1.0, 1)
    assert f"to run it again: strandline-lab simulate --plan {file}\n" in said.err
    assert f"(0 of {len(plan.faults)} faults, 1 s): strandline-lab simulate --plan {smallest}\n" in said.err
    again = await strandline_lab(
        "simulate", "--plan", str(smallest), "--shrink-for", "0", "--out", str(tmp_path)
    )
    assert again.status == 2
    assert f"healing: {problem['sentence']}" in again.out.decode()


async def test_a_seed_that_failed_is_kept_though_the_command_is_interrupted(tmp_path: Path) -> None:
    """Its process is killed, which is a crash, and the next seed runs."""
    seeds = ("--seed", "2", "--seeds", "2", "--seconds", "3600", "--out", str(tmp_path))
    command = await start_python("simulate", *seeds, program=LAB)
    try:
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        [running] = await eventually(lambda: children.read_text().split(), deadline_s=30, what="a seed runs")
        os.kill(int(running), signal.SIGKILL)
        kept = tmp_path / "seed-2" / "plan.json"
        await eventually(kept.exists, what="the folder of the seed that crashed")
        await eventually(children.read_text, what="the second seed runs")
        command.send_signal(signal.SIGINT)
        said = await ended(command, b"")
        assert said.status == 130, said.err
        assert "to run it again: strandline-lab simulate --seed 2 --seconds 3600" in said.out.decode()
        assert Plan.model_validate_json(kept.read_bytes()).seed == 2
    finally:
        if command.returncode is None:
            command.kill()
            _ = await command.wait()


async def test_a_plan_goes_with_no_seed(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("{}")
    said = await strandline_lab("simulate", "--plan", str(file), "--seconds", "3")
    assert said.status == 2
    assert "--plan goes with no --seed" in said.err
    broken = await strandline_lab("simulate", "--plan", str(file))
    assert broken.status == 1
    assert "plan.json is not a plan of a simulation" in broken.err
