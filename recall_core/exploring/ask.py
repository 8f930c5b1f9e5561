"""Asking while exploring: open or compute a run, ask any question of a shelf of memories.

All of it happens on one thread. A front end may call from several (JupyterLab handles widgets beside the
cells), and SQLite ties a connection to the thread that opened it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from recall_core import catalogue, config, fixtures, pipeline, runs
from recall_core.embedders.hashing import HashEmbedder
from recall_core.exploring import explore
from recall_core.gates import Gate
from recall_core.paths.local import LocalPath, LocalSession
from recall_core.records import InputError, Memory, ModelError, Ranking, RecallError, UnknownPathError

NOTES, WIKI = "notes", "wiki"
SHELVES = (NOTES, WIKI)
"""What can be asked: all memories of the run's fixture in one store, or those of [pages] in recall.toml."""
TOP = 10
"""Hits whose texts are kept to be shown."""
LARGEST = 1_000
"""Memories of a case's store that are ranked anew to show its neighbours; above, the recorded hits do."""

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """One question and what came back: what the run's path gives, which the gate reads, each stream, and all
    of them fused.

    `path`: by which it was asked; `remark`: why not by the run's. `memories`: those found, by id.
    """

    query: str
    shelf: str
    path: str
    ranking: Ranking
    rankings: tuple[Ranking, ...]
    fused: Ranking
    memories: dict[str, Memory]
    remark: str = ""


def saved(root: Path) -> list[Path]:
    """The runs of every report that has its metrics beside them: newest report first, best run first."""
    found = []
    for metrics in sorted((root / "reports").glob("[!.]*/metrics.json"), reverse=True):
        paths = sorted((metrics.parent / "runs").glob("*.jsonl"))
        found += sorted(paths, key=lambda path: -_passed(_recorded(metrics, path.stem)))
    return found


def open_saved(path: Path, root: Path) -> explore.Run:
    """Read a run of a report. Raises InputError when it is no such run."""
    entry = _recorded(path.parents[1] / "metrics.json", path.stem)
    if not path.is_file() or not entry:
        raise InputError(f"{path}: no run with its metrics beside it; give reports/DAY/runs/NAME.jsonl")
    rows = runs.read_rows(path)
    gate = Gate(entry["min_score"], entry["delta"])
    day = path.parents[1].name
    fixture, note = None, ""
    try:
        about = json.loads((path.parents[1] / "manifest.json").read_text(encoding="utf-8"))["fixture"]
        fixture = fixtures.load(root / about["path"])
        if fixtures.fixture_hash(fixture) != about["sha256"]:
            note = f"{about['path']} has changed since this run: some texts may be missing or others."
    except (OSError, ValueError, KeyError, RecallError) as error:
        note = f"The fixture of this run cannot be read, so memories are shown by id: {error}"
    return explore.Run(f"{day}, {path.stem}", path.stem, entry["fingerprint"], gate, rows, fixture, note)


def _recorded(metrics: Path, path: str) -> dict[str, Any]:
    """What a report's metrics hold of a run, or nothing: exploring must not stop at a damaged report."""
    try:
        entries = json.loads(metrics.read_text(encoding="utf-8"))["runs"]
        return next((dict(entry) for entry in entries if entry["name"] == path), {})
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _passed(entry: dict[str, Any]) -> int:
    counted = entry.get("summary", [])
    return next((int(c["hits"]) for c in counted if (c["metric"], c["slice"]) == ("passed", "all")), -1)


class Library:
    """Runs, paths and filled memories, opened when they are first needed and kept."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = config.load(root / config.NAME)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recall")
        self._paths: dict[str, LocalPath] = {}
        self._filled: dict[tuple[str, str, str], LocalSession] = {}

    def choices(self) -> list[tuple[str, str]]:
        """(what to show, what to give `run`) of every run: those of the reports, and those to compute."""
        names = dict.fromkeys(["hash", *self.settings.measure])
        kept = [(f"{path.parents[1].name}, {path.stem}", self.short(path)) for path in saved(self.root)]
        return [*kept, *((f"computed now, {name}", name) for name in names)]

    def short(self, path: Path) -> str:
        """A path as it is given: from the project folder."""
        return path.relative_to(self.root).as_posix()

    def run(self, wanted: str, fixture: str = "") -> explore.Run:
        """A run by its file, or computed by the read path of that name on a fixture.

        Empty: the best run of the newest report, or, without reports, that of the hash embedder.
        """
        if not wanted:
            wanted = next((self.short(path) for path in saved(self.root)), "hash")
        if wanted.endswith(".jsonl"):
            return open_saved(self.root / wanted, self.root)
        return self._one(lambda: self._compute(wanted, fixture or self.settings.fixture))

    def ask(self, run: explore.Run, shelf: str, query: str) -> Asked:
        """One question of a shelf, searched by the run's path."""
        if shelf not in SHELVES:
            raise InputError(f"no shelf is called {shelf!r}; there are {', '.join(SHELVES)}")
        return self._one(lambda: self._ask(run, shelf, query))

    def ranking(self, run: explore.Run, case_id: str) -> tuple[Ranking, str]:
        """Every memory of a case's own store, ranked; or the recorded hits, and why there are no more."""
        try:
            return self._one(lambda: self._rank(run, case_id)), ""
        except RecallError as error:
            return explore.recorded(run.row(case_id).iloc[0]), f"Only the hits that the run kept: {error}"

    def _one(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def _compute(self, name: str, fixture_path: str) -> explore.Run:
        path = self._path(name)
        fixture = fixtures.load(self.root / fixture_path)
        gate = catalogue.gate_of(name, self.root, self.settings)
        rows = pipeline.run_cases(fixture, path, top_k=self.settings.top_k, quiet=True)
        return explore.Run(f"computed now, {name}", name, path.fingerprint, gate, rows, fixture)

    def _path(self, name: str) -> LocalPath:
        if name not in self._paths:
            self._paths[name] = catalogue.open_path(name, self.root, self.settings, quiet=True)
        return self._paths[name]

    def _ask(self, run: explore.Run, shelf: str, query: str) -> Asked:
        remark, name = "", run.path
        try:
            self._path(name)
        except (ModelError, UnknownPathError) as error:
            name = "hash"
            remark = f"Asked with the hash embedder, whose scores are on another scale: {error}"
        session = self._session(run, shelf, name)
        path = session.path
        every = config.PathConfig(embedder=path.options.embedder)
        together = replace(path, name="hybrid", options=every, embedder=path.embedder or HashEmbedder())
        whole = self._session(run, shelf, f"{name}, every stream", together)
        ranking, fused = session.search(query, pipeline.DEPTH), whole.search(query, pipeline.DEPTH)
        rankings = (*whole.streams(query, pipeline.DEPTH), _graph(fused))
        kept = {hit.id for hits in (ranking.hits[:TOP], fused.hits) for hit in hits}
        memories = {memory.id: memory for memory in session.store.memories() if memory.id in kept}
        return Asked(query, shelf, name, ranking, rankings, fused, memories, remark)

    def _session(
        self, run: explore.Run, shelf: str, name: str, path: LocalPath | None = None
    ) -> LocalSession:
        key = (name, shelf, run.name if shelf == NOTES else "")
        if key not in self._filled:
            self._filled[key] = (path or self._path(name)).open(self._memories(run, shelf))
        return self._filled[key]

    def _memories(self, run: explore.Run, shelf: str) -> Sequence[Memory]:
        if shelf == NOTES:
            if not run.memories:
                raise InputError(run.note or "this run has no memories to ask; pick another run")
            return list(run.memories.values())
        pages = self.settings.pages
        if pages is None:
            raise InputError(f"{config.NAME} names no wiki; add [pages] with a fixture, or ask the notes")
        return list(fixtures.all_memories(fixtures.load(self.root / pages.fixture)))

    def _rank(self, run: explore.Run, case_id: str) -> Ranking:
        if run.fixture is None or case_id not in run.cases:
            raise InputError("the case is not in the fixture any more")
        path = self._path(run.path)
        if path.fingerprint != run.fingerprint:
            raise InputError(f"{run.path} gives other scores now than when this run was made")
        held = fixtures.memories_for(run.fixture, run.cases[case_id])
        if len(held) > LARGEST:
            raise InputError(f"the store of this case holds {len(held)} memories, more than {LARGEST}")
        return path.open(held).search(run.cases[case_id].query, len(held))


def _graph(fused: Ranking) -> Ranking:
    """What the links added, as a ranking."""
    return Ranking.of(
        "graph", ((hit.id, hit.own("graph")) for hit in fused.hits if hit.own("graph") > -math.inf)
    )
