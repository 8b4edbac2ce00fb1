"""Run by python/test: grids and crash campaigns on a local Ray cluster, of which a worker is killed in the middle.

Skipped without Ray, and without the program: build it, and name it in $TANTALUM or put it on the PATH.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

COMMAND = os.environ.get("TANTALUM") or shutil.which("tantalum")
HAS_RAY = importlib.util.find_spec("ray") is not None

GRID = """
seeds = 4
[run]
profile = "femu-2021"
capacity = "64M"
condition = "aged"
requests = 20000
[axes]
workload = ["randwrite", "mixed"]
queue_depth = [1, 8]
"""


def children_of(pid):
    """All processes below one, by reading /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    below, left = [], [pid]
    while left:
        more = parents.get(left.pop(), [])
        below += more
        left += more
    return below


def own_workers():
    """Worker processes of this test's own cluster that are running a task."""
    found = []
    for pid in children_of(os.getpid()):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if line.startswith("ray::_run"):
            found.append(pid)
    return found


@unittest.skipUnless(HAS_RAY, "Ray is not installed")
@unittest.skipUnless(COMMAND, "the program tantalum is not built")
class SweepTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import ray

        # Ray gives its agents 15 s to start (ray-project/ray#65983), which a busy machine may exceed
        for is_last in (False, False, True):
            try:
                ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
                return
            except Exception:
                ray.shutdown()
                if is_last:
                    raise

    @classmethod
    def tearDownClass(cls):
        import ray

        ray.shutdown()

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def kill_one_worker(self):
        """Kills the first worker that runs a task; returns where its process number will be."""
        killed = []

        def kill():
            deadline = time.monotonic() + 120
            while not killed and time.monotonic() < deadline:
                for pid in own_workers()[:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                # shorter than a task: otherwise all may be done before one is seen
                time.sleep(0.005)

        threading.Thread(target=kill, daemon=True).start()
        return killed

    def test_a_grid_survives_a_killed_worker_and_gives_the_same_table_as_one_machine(self):
        from tantalum import sweep

        grid = self.folder / "grid.toml"
        grid.write_text(GRID)
        killed = self.kill_one_worker()
        seen = []
        outcome = sweep.sweep(
            grid, self.folder / "ray", command=COMMAND, progress=lambda done, of: seen.append((done, of))
        )
        self.assertEqual(len(killed), 1, "no worker was killed")
        self.assertEqual((outcome.runs, outcome.done, outcome.kept, outcome.failed), (16, 16, 0, []))
        self.assertEqual(seen[-1], (16, 16))
        here = [COMMAND, "lab", "sweep", str(grid), "--output", str(self.folder / "here")]
        subprocess.run(here, check=True, capture_output=True)
        for name in ["table.csv"] + ["table.parquet"] * (outcome.parquet is not None):
            self.assertEqual((self.folder / "ray" / name).read_bytes(), (self.folder / "here" / name).read_bytes())
        # nothing is left to do
        again = sweep.sweep(grid, self.folder / "ray", command=COMMAND)
        self.assertEqual((again.done, again.kept), (0, 16))

    def test_a_grid_that_is_wrong_is_refused(self):
        from tantalum import sweep

        grid = self.folder / "grid.toml"
        grid.write_text('[run]\nworkload = "sideways"\n')
        with self.assertRaisesRegex(sweep.SweepError, "workload = sideways"):
            sweep.sweep(grid, self.folder / "ray", command=COMMAND)

    def test_a_campaign_survives_a_killed_worker(self):
        from tantalum import sweep

        killed = self.kill_one_worker()
        outcome = sweep.crash_campaign(range(1, 7), ["--cuts", "40"], command=COMMAND)
        self.assertEqual(len(killed), 1, "no worker was killed")
        self.assertEqual((sorted(outcome.outcomes), outcome.broken, outcome.failed), (list(range(1, 7)), [], {}))
        wrong = sweep.crash_campaign([1], ["--cuts", "many"], command=COMMAND)
        self.assertIn("use `all` or a number", wrong.failed[1])


if __name__ == "__main__":
    unittest.main()
