"""Grids and crash campaigns on many machines, by Ray.

`pip install ray` is needed for this module only. Each run of a grid, and each seed of a campaign, is one Ray task that runs the
`tantalum` command, which must be on every machine. A task whose worker is lost is done again. What a run needs is in its
description, but for the bytes of a trace, which must have the same path everywhere. `docs/sweep.md` describes grids.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CampaignOutcome", "SweepOutcome", "crash_campaign", "sweep"]

#: How often a task is retried when its worker or machine is lost.
RETRIES = 8

#: The exit code of `tantalum` when a promise was broken.
BROKEN = 1

Progress = Callable[[int, int], object]


class SweepError(Exception):
    """The command refused, or a run failed on every attempt."""


@dataclass(frozen=True)
class SweepOutcome:
    """The result of a sweep."""

    #: Runs of the grid, those done now, and those that were in the folder.
    runs: int
    done: int
    kept: int
    #: Why runs failed, by their description.
    failed: list[tuple[dict[str, Any], str]]
    #: The tables. `parquet` is `None` if the command was built without the feature `parquet`.
    csv: Path
    parquet: Path | None


@dataclass(frozen=True)
class CampaignOutcome:
    """The result of a crash campaign."""

    #: The seeds that were run.
    seeds: list[int]
    #: What the command printed for each seed.
    outcomes: dict[int, dict[str, Any]] = field(repr=False)
    #: The seeds with broken promises.
    broken: list[int]
    #: Seeds that could not be run, and why.
    failed: dict[int, str]


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("tantalum.sweep needs Ray: pip install ray") from error
    if not ray.is_initialized():
        ray.init()
    return ray


def _run(command: Sequence[str], given: str | None = None) -> tuple[int, str, str]:
    """Runs a command; its exit code, and what it printed on standard output and error."""
    done = subprocess.run(command, input=given, stdin=None if given else subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip()


def _checked(command: Sequence[str]) -> str:
    code, output, said = _run(command)
    if code != 0:
        raise SweepError(said or f"{' '.join(command)} ended with exit code {code}")
    return output


def _save(path: Path, text: str) -> None:
    """Writes a file atomically."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with open(beside, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def _each(tasks: dict[Any, Any], ray: Any, progress: Progress | None) -> Iterable[tuple[Any, Any]]:
    """The results of tasks as they come: what a task stands for, and its result or exception."""
    total = len(tasks)
    while tasks:
        ready, _ = ray.wait(list(tasks), num_returns=1)
        for reference in ready:
            what = tasks.pop(reference)
            try:
                result = ray.get(reference)
            except ray.exceptions.RayError as error:
                result = error
            yield what, result
            if progress is not None:
                progress(total - len(tasks), total)


def sweep(
    grid: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    command: str = "tantalum",
    progress: Progress | None = None,
) -> SweepOutcome:
    """Executes the runs of a grid that are not in the folder `output`, each as a Ray task, and writes the table there.

    The folder is that of `tantalum lab sweep`: either can continue what the other began. `command` is where the program is
    on every machine; `progress` is called with how many tasks are done, and of how many.
    """
    listed = [json.loads(line) for line in _checked([command, "lab", "sweep", os.fspath(grid), "--list"]).splitlines()]
    runs = Path(output) / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    left = [run for run in listed if not (runs / f"{run['id']}.json").exists()]
    failed: list[tuple[dict[str, Any], str]] = []
    done = 0
    if left:
        ray = _ray()
        one = ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
        tasks = {one.remote([command, "lab", "sweep", "--one"], json.dumps(run)): run for run in left}
        for run, result in _each(tasks, ray, progress):
            if isinstance(result, Exception):
                failed.append((run["run"], str(result)))
            elif result[0] != 0:
                failed.append((run["run"], result[2]))
            else:
                _save(runs / f"{run['id']}.json", result[1])
                done += 1
    # failed runs are tried once more here, and the table gives the reasons
    code, _, said = _run([command, "lab", "sweep", os.fspath(grid), "--output", os.fspath(output)])
    if code != 0 and not failed:
        raise SweepError(said)
    folder = Path(output)
    parquet = folder / "table.parquet"
    return SweepOutcome(
        runs=len(listed),
        done=done,
        kept=len(listed) - len(left),
        failed=failed,
        csv=folder / "table.csv",
        parquet=parquet if parquet.exists() else None,
    )


def crash_campaign(
    seeds: Iterable[int],
    options: Sequence[str] = (),
    *,
    command: str = "tantalum",
    progress: Progress | None = None,
) -> CampaignOutcome:
    """Runs `tantalum crash device` with each seed as a Ray task.

    `options` are further options of the command, such as `["--cuts", "50", "--flash", "loses"]`. A seed with a broken promise
    ends nothing; `tantalum crash device --seed N` with the same options shows it again.
    """
    ray = _ray()
    seeds = list(seeds)
    one = ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
    arguments = [command, "crash", "device", "--threads", "1", "--json", *options]
    tasks = {one.remote([*arguments, "--seed", str(seed)]): seed for seed in seeds}
    outcomes: dict[int, dict[str, Any]] = {}
    broken: list[int] = []
    failed: dict[int, str] = {}
    for seed, result in _each(tasks, ray, progress):
        if isinstance(result, Exception):
            failed[seed] = str(result)
        elif result[0] in (0, BROKEN) and result[1]:
            outcomes[seed] = json.loads(result[1])
            if result[0] == BROKEN:
                broken.append(seed)
        else:
            failed[seed] = result[2]
    return CampaignOutcome(seeds=seeds, outcomes=outcomes, broken=sorted(broken), failed=failed)
