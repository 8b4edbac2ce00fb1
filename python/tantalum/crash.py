"""Power cuts of a function: it runs once on a mounted drive, and a check runs on everything that may be left.

`docs/crash-run.md` says which outcomes are tried, and what a finding means.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import tantalum as _compiled

Ack = Callable[[str], None]
Program = Callable[[Path, Ack], object]
Check = Callable[[Path, "list[str]"], object]


@dataclass(frozen=True)
class CrashFinding:
    """A failed check, reduced to what must be lost for it to fail."""

    #: How many of the program's operations had returned when power was cut.
    after_operations: int
    #: The last of them.
    last_operation: str
    check_ended: str
    #: What the check raised.
    check_said: str
    #: Operations that are lost, in whole or in part.
    lost: list[str]
    #: Later ones that are there.
    there: list[str]
    #: Syncs that would each make the check pass.
    saved_by: list[str]
    #: Operations that can be lost before any sync could follow, although the check fails then.
    unavoidable: list[str]
    #: Why the check fails although nothing that was written is lost: "acknowledged" before it was written, or "between" two
    #: operations, also if only the program is killed there.
    without_loss: str | None
    #: Other outcomes that fail for the same reason.
    also: int
    #: The folder in which it is saved.
    saved: Path | None


@dataclass(frozen=True)
class CrashOutcome:
    """What was tried, and what was found."""

    operations: int
    syncs: int
    #: Places where power could be cut, and cuts.
    places: int
    cuts: int
    #: All outcomes, the different ones, and those in which the check failed.
    outcomes: int
    checked: int
    failed: int
    #: Failures that were not explained.
    unexplained: int
    #: Whether it ended before all cuts were tried.
    ended_early: bool
    findings: list[CrashFinding]
    #: A table of these numbers, and the findings.
    text: str
    #: Why findings could not be saved, if that failed.
    not_saved: str | None = None

    @property
    def survived(self) -> bool:
        """Whether no check failed."""
        return self.failed == 0

    def __str__(self) -> str:
        return self.text


def crash_run(
    program: Program,
    check: Check,
    *,
    drive: str | None = None,
    sector: int = 512,
    cuts: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    capacity_bytes: int = 1 << 30,
    save: str | os.PathLike[str] | None = None,
) -> CrashOutcome:
    """Does what `program` stores survive power loss?

    `program(folder, ack)` runs once, in a new folder on a mounted drive. `ack("text")` acknowledges something. Then
    `check(folder, acks)` is called for each outcome, with a copy of the files, and what had been acknowledged before the power cut; it
    raises if something is not as it should be. Calls of `check` may overlap, in threads.

    By default the worst happens that POSIX allows; `drive` is the name of a profile, or its file, whose losses are tried instead.
    `sector` (512 or 4096) is what a disk writes as a whole, `cuts` and `minutes` limit what is tried, `save` is a new folder for
    findings. Raises what the program raises, `TantalumError` if nothing can be mounted (it needs `/dev/fuse`) or the check
    fails with power on, and `ValueError` for options that cannot be.
    """
    run = getattr(_compiled, "_crash_run", None)
    if run is None:
        raise NotImplementedError("crash_run needs Linux with FUSE")
    found, text = run(
        program,
        check,
        drive=drive,
        sector=sector,
        cuts=cuts,
        minutes=minutes,
        seed=seed,
        capacity_bytes=capacity_bytes,
        save=save,
    )
    outcome: dict[str, Any] = json.loads(found)
    findings = [_finding(finding) for finding in outcome.pop("findings")]
    return CrashOutcome(findings=findings, text=text, **outcome)


def _finding(found: dict[str, Any]) -> CrashFinding:
    saved = found.pop("saved")
    return CrashFinding(saved=saved and Path(saved), **found)
