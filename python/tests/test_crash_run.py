"""Run by python/test: power cuts of functions, and the fixture for pytest."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import tantalum


def can_mount():
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
        return True
    except OSError:
        return False


def replace(folder, text, sync):
    with open(folder / "new", "w") as file:
        file.write(text)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.rename(folder / "new", folder / "file")
    if sync:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def program(sync):
    def run(folder, ack):
        for number in ("1", "2"):
            replace(folder, number * 5000, sync)
            ack(number)

    return run


def check(folder, acks):
    assert isinstance(folder, Path)
    if acks:
        text = (folder / "file").read_text()
        assert len(text) == 5000 and text[0] >= acks[-1], f"{len(text)} bytes after {acks}"


@unittest.skipUnless(can_mount(), "needs /dev/fuse")
class CrashRunTest(unittest.TestCase):
    def test_a_program_that_syncs_survives(self):
        outcome = tantalum.crash_run(program(sync=True), check)
        self.assertTrue(outcome.survived, str(outcome))
        self.assertGreater(outcome.outcomes, outcome.checked)
        self.assertEqual(outcome.cuts, outcome.places)

    def test_a_program_that_does_not_is_found_out(self):
        with tempfile.TemporaryDirectory() as folder:
            outcome = tantalum.crash_run(program(sync=False), check, save=Path(folder) / "found", seed=7)
            self.assertFalse(outcome.survived)
            finding = outcome.findings[0]
            self.assertTrue(any("fsync" in sync for sync in finding.saved_by), finding)
            self.assertTrue((finding.saved / "files").is_dir())
            said = {line for finding in outcome.findings for line in finding.check_said.splitlines()}
            self.assertTrue(any(line.startswith(("AssertionError: ", "FileNotFoundError: ")) for line in said), said)
            self.assertIn("FINDING 1", str(outcome))

    def test_a_drive_loses_less(self):
        outcome = tantalum.crash_run(program(sync=True), check, drive="tlc-nvme", cuts=5, capacity_bytes=256 << 20)
        self.assertTrue(outcome.survived, str(outcome))
        self.assertLessEqual(outcome.cuts, 5)

    def test_what_the_program_raises_is_raised(self):
        with self.assertRaises(ZeroDivisionError):
            tantalum.crash_run(lambda folder, ack: 1 / 0, check)
        with self.assertRaises(tantalum.TantalumError) as raised:
            tantalum.crash_run(lambda folder, ack: None, check)
        self.assertIn("changed nothing", str(raised.exception))

    def test_options_that_cannot_be_are_refused(self):
        for options in ({"sector": 1000}, {"cuts": 0}, {"minutes": 0}, {"drive": "no-such"}):
            with self.assertRaises(ValueError, msg=options):
                tantalum.crash_run(program(sync=True), check, **options)

    def test_a_check_that_fails_with_power_on_is_an_error(self):
        def wrong(folder, acks):
            raise RuntimeError("never content")

        with self.assertRaises(tantalum.TantalumError) as raised:
            tantalum.crash_run(program(sync=True), wrong)
        self.assertIn("never content", str(raised.exception))

    def test_the_fixture_fails_a_test_that_loses_something(self):
        tests = """
            import os
            from test_crash_run import check, program

            def test_right(crash_run):
                assert crash_run(program(sync=True), check).cuts > 3

            def test_wrong(crash_run):
                crash_run(program(sync=False), check)
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test_it.py"
            path.write_text(textwrap.dedent(tests))
            ran = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--crash-save", f"{folder}/found", path],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
                capture_output=True,
                text=True,
            )
            self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
            for part in ("1 failed, 1 passed", "it does not survive power loss", "FINDING 1", "fsync new after write to new"):
                self.assertIn(part, ran.stdout)
            self.assertTrue((Path(folder) / "found/test_wrong/finding-1/finding.json").is_file())


if __name__ == "__main__":
    unittest.main()
