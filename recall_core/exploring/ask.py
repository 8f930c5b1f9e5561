"""Asking while exploring: open or compute a run, ask any question of a shelf of memories.

All of it happens on one thread. A front end may call from several (JupyterLab handles widgets beside the
cells), and SQLite ties a connection to the thread that opened it.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from recall_core import catalogue, config, fixtures, pipeline, runs
from recall_core.embedders.hashing import HashEmbedder
from recall_core.exploring import explore
from recall_core.gates import Gate
from recall_core.paths.local import LocalPath, LocalSession
from recall_core.records import InputError, Memory, ModelError, Ranking, RecallError, UnknownPathError

NOTES, WIKI = "notes", "wiki"
SHELVES = (NOTES, WIKI)
"""What can be asked: all memories of the run's fixture in one store, or those of [pages] in recall.toml."""
LARGEST = 1_000
"""Memories of a case's store that are ranked anew to show its neighbours; above, the recorded hits do."""


@dataclass(frozen=True)
class Asked:
    """One question and what came back: what the run's path gives, which the gate reads, each stream, and all
    of them fused.

    `path`: by which it was asked; `remark`: why not by the run's. `memories`: those of the shelf, by id.
    """

    query: str
    path: str
    ranking: Ranking
    rankings: tuple[Ranking, ...]
    fused: Ranking
    memories: dict[str, Memory]
    remark: str = ""


def _entries(report: Path) -> dict[str, dict[str, Any]]:
    """What a report's metrics hold of each run; nothing where they are damaged: exploring goes on."""
    try:
        entries = runs.read_json(report / "metrics.json")["runs"]
        return {entry["name"]: entry for entry in entries}
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
        self._one = ThreadPoolExecutor(1, thread_name_prefix="recall").submit
        self._path = cache(lambda name: catalogue.open_path(name, root, self.settings, quiet=True))
        self._filled = lru_cache(12)(self._fill)

    def choices(self) -> list[tuple[str, str]]:
        """(what to show, what to give `run`): runs of reports, newest day and best first, then to compute."""
        kept = []
        for report in sorted((self.root / "reports").glob("[!.]*"), reverse=True):
            entries = sorted(_entries(report).items(), key=lambda named: (-_passed(named[1]), named[0]))
            for name, _ in entries:
                if (path := report / "runs" / f"{name}.jsonl").is_file():
                    kept.append((f"{report.name}, {name}", path.relative_to(self.root).as_posix()))
        names = dict.fromkeys(["hash", *self.settings.measure])
        return [*kept, *((f"computed now, {name}", name) for name in names)]

    def run(self, wanted: str, fixture: str = "") -> explore.Run:
        """A run by its file, or computed by the read path of that name on a fixture.

        Empty: the best run of the newest report, or, without reports, that of the hash embedder. Raises
        InputError on a file that is no run of a report.
        """
        wanted = wanted or self.choices()[0][1]
        if wanted.endswith(".jsonl"):
            return self._saved(self.root / wanted)
        return self._one(self._compute, wanted, fixture or self.settings.fixture).result()

    def ask(self, run: explore.Run, shelf: str, query: str) -> Asked:
        """One question of a shelf, searched by the run's path."""
        return self._one(self._ask, run, shelf, query).result()

    def ranking(self, run: explore.Run, case_id: str) -> tuple[Ranking, str]:
        """Every memory of a case's own store, ranked; or the recorded hits, and why there are no more."""
        try:
            return self._one(self._rank, run, case_id).result(), ""
        except RecallError as error:
            row = run.rows[run.rows["case_id"] == case_id].iloc[0]
            return explore.recorded(row), f"Only the hits that the run kept: {error}"

    def _saved(self, path: Path) -> explore.Run:
        report = path.parents[1]
        entry = _entries(report).get(path.stem)
        if not path.is_file() or not entry:
            raise InputError(f"{path}: no run with its metrics beside it; give reports/DAY/runs/NAME.jsonl")
        fixture, note = None, ""
        try:
            about = runs.read_json(report / "manifest.json")["fixture"]
            fixture = fixtures.load(self.root / about["path"])
            if fixtures.fixture_hash(fixture) != about["sha256"]:
                note = f"{about['path']} has changed since this run: some texts may be missing or others."
        except (OSError, ValueError, KeyError, RecallError) as error:
            note = f"The fixture of this run cannot be read, so memories are shown by id: {error}"
        name, gate = f"{report.name}, {path.stem}", Gate(entry["min_score"], entry["delta"])
        rows = runs.read_rows(path)
        return explore.Run(name, path.stem, entry["fingerprint"], gate, rows, fixture, note)

    def _compute(self, name: str, fixture_path: str) -> explore.Run:
        path = self._path(name)
        fixture = fixtures.load(self.root / fixture_path)
        gate = catalogue.gate_of(name, self.root, self.settings)
        rows = pipeline.run_cases(fixture, path, top_k=self.settings.top_k, quiet=True)
        return explore.Run(f"computed now, {name}", name, path.fingerprint, gate, rows, fixture)

    def _ask(self, run: explore.Run, shelf: str, query: str) -> Asked:
        if shelf not in SHELVES:
            raise InputError(f"no shelf is called {shelf!r}; there are {', '.join(SHELVES)}")
        remark = ""
        try:
            path = self._path(run.path)
        except (ModelError, UnknownPathError) as error:
            path = self._path("hash")
            remark = f"Asked with the hash embedder, whose scores are on another scale: {error}"
        notes_of = run if shelf == NOTES else None
        own, whole = self._filled(path.name, notes_of, False), self._filled(path.name, notes_of, True)
        ranking, fused = own.search(query, pipeline.DEPTH), whole.search(query, pipeline.DEPTH)
        linked = ((hit.id, hit.own("graph")) for hit in fused.hits if hit.own("graph") > -math.inf)
        rankings = (*whole.streams(query, pipeline.DEPTH), Ranking.of("graph", linked))
        memories = {memory.id: memory for memory in own.store.memories()}
        return Asked(query, path.name, ranking, rankings, fused, memories, remark)

    def _fill(self, name: str, notes_of: explore.Run | None, every_stream: bool) -> LocalSession:
        """A path with the notes of a run, or with the wiki; `every_stream`: not only those of the path."""
        path: LocalPath = self._path(name)
        if every_stream:
            options = config.PathConfig(embedder=path.options.embedder)
            path = replace(path, name="hybrid", options=options, embedder=path.embedder or HashEmbedder())
        if notes_of:
            if not notes_of.memories:
                raise InputError(notes_of.note or "this run has no memories to ask; pick another run")
            return path.open(list(notes_of.memories.values()))
        if self.settings.pages is None:
            raise InputError(f"{config.NAME} names no wiki; add [pages] with a fixture, or ask the notes")
        return path.open(list(fixtures.all_memories(fixtures.load(self.root / self.settings.pages.fixture))))

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
