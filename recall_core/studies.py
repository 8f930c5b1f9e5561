"""Studies of embedders on one fixture: pairs, health, controls, and the price of stale vectors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from recall_core import catalogue, checks, comparison, config, fixtures, health, models, pipeline
from recall_core.choosing import combine
from recall_core.embedders import Embedder
from recall_core.embedders.cache import CachedEmbedder
from recall_core.embedders.variants import Stale
from recall_core.passages import passages
from recall_core.paths.local import LocalPath
from recall_core.records import Fixture
from recall_core.runs import Result


@dataclass(frozen=True)
class Study:
    """One fixture, for asking several embedders the same."""

    fixture: Fixture
    root: Path
    settings: config.Config
    top_k: int = 3

    @property
    def texts(self) -> list[str]:
        """The whole text of every memory."""
        return [passages(memory)[0] for memory in fixtures.all_memories(self.fixture)]

    def path(self, embedder: Embedder, *, centre: bool = False) -> LocalPath:
        """Vectors alone."""
        options = config.PathConfig(streams=("vector",), embedder=embedder.name, centre=centre)
        return LocalPath(embedder.name + (", centred" if centre else ""), options, embedder, quiet=True)

    def run(self, path: LocalPath, shipped_as: str) -> Result:
        """Every case, behind the gate that the embedder of that name ships with."""
        gate = catalogue.gate_of(shipped_as, self.root, self.settings)
        return pipeline.evaluate(self.fixture, path, gate=gate, top_k=self.top_k, quiet=True)

    def health(self, embedder: Embedder) -> pd.DataFrame:
        """Every check of one embedder, on uncached vectors: `embedder`, `name`, `ok`, `measured`, and the
        day it was measured, `on` (ISO)."""
        queries = [case.query for case in self.fixture.cases]
        delta = catalogue.gate_of(embedder.name, self.root, self.settings).delta
        found, day = health.measure_once(embedder, self.root, self.texts, queries, delta)
        return pd.DataFrame([asdict(check) for check in found]).assign(
            embedder=embedder.name, on=day.isoformat()
        )

    def variants(self, plain: Embedder) -> list[LocalPath]:
        """What an embedder is compared with as a control: without prefixes, if it has any, and centred."""
        found = [self.path(plain, centre=True)]
        registry = models.load_registry(self.root / catalogue.REGISTRY)
        entry = registry.get(plain.name)
        if entry and (entry.query_prefix or entry.passage_prefix):
            bare = catalogue.open_embedder(plain.name, self.root, prefixes=False)
            found.insert(0, self.path(CachedEmbedder(bare, self.root / catalogue.CACHE)))
        return found

    def geometry(self, path: LocalPath) -> tuple[pd.Series[float], pd.DataFrame]:
        """How a path of vectors spreads the fixture, all memories in one store.

        Series: `embedder`, cosine percentiles `p1` to `p99` of random pairs, `hubness`. Frame: the ten
        memories that are most often near a question: `embedder`, `id`, `times`, `queries`, `text`.
        """
        held = path.open(list(fixtures.all_memories(self.fixture))).vectors[0]
        assert path.embedder
        rows = held.matrix[held.row_of[held.starts]].astype(np.float32)
        embedded = path.embedder.embed_queries([case.query for case in self.fixture.cases])
        queries = np.array([held.asked(query) for query in embedded], dtype=np.float32)
        skewness, counted = checks.hubness(queries, rows, [held.ids[at] for at in held.starts])
        texts = {memory.id: memory.text for memory in fixtures.all_memories(self.fixture)}
        worst = counted.head(10).assign(embedder=path.name, queries=len(queries))
        worst["text"] = [texts[id_] for id_ in worst["id"]]
        head = pd.Series({"embedder": path.name})
        return pd.concat([head, checks.band(rows), pd.Series({"hubness": skewness})]), worst

    def stale(self, embedders: Sequence[Embedder]) -> pd.DataFrame:
        """What a store written by one and asked by another scores, on purpose, for every ordered pair.

        Counts: `embedder`, `recall`, `answered`, `asked`, `false_recall`, `silent`. Pairs of two dimensions
        cannot be mixed and are left out.
        """
        mixed = [
            self.run(self.path(Stale(old, new)), new.name)
            for old, new in itertools.permutations(embedders, 2)
            if old.dim == new.dim
        ]
        counts = [
            [
                result.path,
                *result.counted("recall@1"),
                *result.counted("answered")[:1],
                *result.counted("false_recall"),
            ]
            for result in mixed
        ]
        columns = ["embedder", "recall", "asked", "answered", "false_recall", "silent"]
        return pd.DataFrame(counts, columns=columns)


def side_by_side(results: Iterable[Result]) -> pd.DataFrame:
    """The shares of all cases, a column an embedder."""
    return pd.DataFrame(
        {
            result.path: result.summary[result.summary["slice"] == "all"].set_index("metric")["share"]
            for result in results
        }
    ).round(3)


def pairs(results: Sequence[Result]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every two of them compared, the earlier one as before: all differences, and all flips.

    As `comparison.compare` describes, with `before_name` and `after_name`.
    """
    tables, flips = [pd.DataFrame()], [pd.DataFrame()]
    for one, two in itertools.combinations(results, 2):
        pair = comparison.compare(one, two)
        tables.append(pair.table.assign(before_name=pair.before, after_name=pair.after))
        flips.append(pair.flips.assign(before_name=pair.before, after_name=pair.after))
    return pd.concat(tables[1:] or tables), pd.concat(flips[1:] or flips)


def controls(plain: Result, changed: Sequence[Result]) -> pd.DataFrame:
    """Each control beside the plain run: the rows of `comparison.compare`, with `embedder` and `control`."""
    return pd.concat(
        [
            comparison.compare(plain, result).table.assign(
                embedder=plain.path, control=result.path.removeprefix(f"{plain.path}, ")
            )
            for result in changed
        ]
    )


def separation(result: Result) -> dict[str, object]:
    """How well score and margin tell right-first cases from those that must stay silent.

    AUROC, 0.5 is chance, as `combine.separation` measures it: `top1` and `margin`, each with its 95% interval
    `_low`, `_high`; `right` and `silent` are the cases on either side.
    """
    signals = {name: result.rows[name] for name in ("top1", "margin")}
    found = combine.separation(result.rows, signals).set_index("signal")
    right, silent = found[["right", "others"]].iloc[0].tolist()
    areas = {name: found.loc[name, "auroc"] for name in signals}
    ends = {f"{name}_{end}": found.loc[name, end] for name in signals for end in ("low", "high")}
    return {"embedder": result.path, "right": right, "silent": silent, **areas, **ends}
