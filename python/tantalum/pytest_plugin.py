"""The fixture `crash_run` for pytest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .crash import Check, CrashOutcome, Program
from .crash import crash_run as run


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tantalum", "power cuts (tantalum)")
    group.addoption("--crash-cuts", type=int, metavar="N", help="cut power at N places at most in each test")
    group.addoption("--crash-minutes", type=float, metavar="N", help="try nothing more after N minutes of a test")
    group.addoption("--crash-seed", type=int, default=0, metavar="N", help="seed of all random choices (0)")
    group.addoption("--crash-save", type=Path, metavar="FOLDER", help="save findings in a folder of the test's name in FOLDER")


@pytest.fixture
def crash_run(request: pytest.FixtureRequest) -> Callable[..., CrashOutcome]:
    """`tantalum.crash_run`; the test fails if a check fails. Options that a test gives go before those of the command line."""
    get = request.config.getoption
    options: dict[str, Any] = {name: get(f"--crash-{name}") for name in ("cuts", "minutes", "seed")}
    save: Path | None = get("--crash-save")
    calls = 0

    def crash_run(program: Program, check: Check, **given: Any) -> CrashOutcome:
        nonlocal calls
        calls += 1
        if save is not None:
            name = request.node.name.replace("/", "_")
            options["save"] = save / (name if calls == 1 else f"{name}-{calls}")
        outcome = run(program, check, **{**options, **given})
        if not outcome.survived:
            pytest.fail(f"it does not survive power loss\n{outcome}", pytrace=False)
        return outcome

    return crash_run
