"""A whole night, cold and warm: nothing embedded yet, and everything embedded the night before."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import timing
from recall_core.past import history


def run(root: Path) -> None:
    """Print the seconds of a cold and a warm night, and of each notebook in both, in a copy of the project
    that shares the models."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "project"
        copy.mkdir()
        for part in ("notebooks", "data", "recall.toml"):
            source = root / part
            shutil.copytree(source, copy / part) if source.is_dir() else shutil.copy(source, copy)
        (copy / "models").symlink_to(root / "models")
        cold, warm = _night(copy), _night(copy)
        nights = history.read(copy / "reports")
    timing.table("a night", {"cold night": cold, "warm night": warm})
    print("\nwhere it goes, in seconds; two notebooks run at a time")
    first, second = (night["seconds"] for night in nights)
    for name in sorted(first, key=lambda name: -first[name]):
        print(f"  {name:<44} {first[name]:>6.1f} cold {second[name]:>6.1f} warm")


def _night(project: Path) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-c", "from recall_core.cli import main; main()", "nightly"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the night failed: {done.stderr}")
    return time.perf_counter() - start
