"""Where things live: imports point one way, notebooks hold no logic, the two dependency lists agree."""

import ast
import itertools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "recall_core"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

JOURNEY = [
    "records",
    "words",
    "progress",
    "writing",
    "wording",
    "config",
    "vault",
    "sources",
    "fixtures",
    "lint",
    "split",
    "stats",
    "choosing.loglines",
    "threads",
    "passages",
    "store",
    "embedders",
    "modelfiles.downloads",
    "modelfiles.weights",
    "modelfiles.graphs",
    "modelfiles.building",
    "models",
    "streams",
    "fusion",
    "paths",
    "paths.local",
    "gates",
    "catalogue",
    "choosing.gate_file",
    "signals",
    "scoring",
    "choosing.combine",
    "choosing.learn_then_test",
    "choosing.choice",
    "choosing.optimism",
    "runs",
    "trec",
    "pipeline",
    "choosing.held_out",
    "choosing.drift",
    "choosing.gate_study",
    "choosing.grid_study",
    "comparison",
    "past.history",
    "past.trend",
    "past.changes",
    "checks",
    "health",
    "studies",
    "path_study",
    "plots",
    "reporting.bands",
    "reporting.behind",
    "reporting.svg",
    "reporting.web",
    "reporting.findings",
    "exploring.drafts",
    "exploring.explore",
    "exploring.ask",
    "exploring.html",
    "exploring.first",
    "exploring.desk",
    "exploring.widgets",
    "reporting.report",
    "night.verdicts",
    "night.jobs",
    "night.nightlog",
    "night.workers",
    "night.notebooks",
    "night.provenance",
    "night.publishing",
    "night.baselines",
    "night.ratchet",
    "night.site",
    "night.nightwork",
    "night.nightly",
    "commands.options",
    "commands.run",
    "commands.ask",
    "commands.fixture",
    "commands.models",
    "commands.store",
    "commands.gate",
    "commands.night",
    "cli",
]
"""A module imports only from rooms before its own."""
WHOLE = ("embedders", "plots", "store")


def room_of(path: Path) -> str:
    """`config`, `night.jobs`, `paths`; the modules of `embedders`, `plots` and `store` are one room each."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0] if parts[0] in WHOLE else ".".join(parts).removesuffix("__init__").rstrip(".")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recall_core"):
            module = node.module.removeprefix("recall_core").removeprefix(".")
            names = [f"{module}.{alias.name}".removeprefix(".") for alias in node.names]
            found |= {holding(name) for name in names if name != "__version__"}
    return found


def holding(name: str) -> str:
    """The innermost room that a dotted name lies in."""
    return max((room for room in JOURNEY if name == room or name.startswith(f"{room}.")), key=len)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    if path.name == "__init__.py" and room not in JOURNEY:
        assert not imported_rooms(path)
        return
    own = {room} if room in WHOLE else set()
    assert imported_rooms(path) <= set(JOURNEY[: JOURNEY.index(room)]) | own


def test_importing_the_package_is_light() -> None:
    script = (
        "import sys, recall_core; print([m for m in ('numpy', 'pandas', 'onnxruntime') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_environment_yml_offers_what_pyproject_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    declared = {*project["dependencies"], f"python{project['requires-python']}", "pip"}
    assert set(conda) == declared


def test_every_declared_dependency_is_locked_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements.lock").read_text()
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    for requirement in wanted:
        name = re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")
        pinned = re.search(rf"^{re.escape(name)}==\S+.*?\\\n    --hash=sha256:", lock, re.M)
        assert pinned, f"{requirement} is not in requirements.lock; run make lock"


def test_the_lock_names_no_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--index" not in lock
    assert "--find-links" not in lock


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_teaches_and_holds_no_logic(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    assert cells[0]["cell_type"] == "markdown"
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    for before, cell in itertools.pairwise(cells):
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            assert before["cell_type"] == "markdown", f"no prose before: {source[:60]}"
            assert not re.search(r"^\s*(def|class) ", source, re.M)
            assert len(source.splitlines()) <= 15
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_every_parameter_is_typed_and_explained(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    (tagged,) = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    for line in "".join(tagged["source"]).splitlines():
        assert re.match(r"\w+: [\w\[\] |]+ = .+  # .+", line), line
