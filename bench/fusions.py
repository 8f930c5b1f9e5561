"""Which fusion to ship as the default: chosen on one half of three unlike fixtures, judged on the other.

`python -m bench.fusions PATH/locomo.json` writes docs/fusion.md. Without a file of LoCoMo the dialogues are
left out. It is no part of `make bench`: it measures recall and not speed, and takes some minutes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from recall_core import catalogue, config, fixtures, pipeline, split
from recall_core.paths.local import LocalPath
from recall_core.records import Case, Fixture, Memory
from recall_core.stats import share

ROOT = Path(__file__).parents[1]
EMBEDDER = "multilingual-e5-small-q4"
OUT = ROOT / "docs" / "fusion.md"
Options = config.PathConfig
SINGLE = {
    "keyword": Options(streams=("keyword",)),
    "vector": Options(streams=("vector",)),
    "vector, not centred": Options(streams=("vector",), centre=False),
}
FUSED = {
    f"{name}{more}": Options(fusion=fusion, k=k, weights=weights)
    for name, fusion, k in (
        ("rrf, k 60", "rrf", 60),
        ("rrf, k 10", "rrf", 10),
        ("rrf, k 5", "rrf", 5),
        ("rrf, k 1", "rrf", 1),
        ("minmax", "minmax", 60),
        ("dbsf", "dbsf", 60),
    )
    for more, weights in (("", {}), ("; keyword 1.5", {"keyword": 1.5}), ("; vector 2", {"vector": 2.0}))
}
THREADS = {
    "words alone": Options(streams=("keyword",), near=0, date=0, speaker=0),
    "with neighbours": Options(streams=("keyword",), date=0, speaker=0),
    "with neighbours and date": Options(streams=("keyword",), speaker=0),
    "with neighbours, date and speaker": Options(streams=("keyword",)),
    "vectors of the turn alone": Options(streams=("vector",), window=False, speaker=0),
    "vectors, turn and window": Options(streams=("vector",), speaker=0),
    "vectors, turn and window, speaker": Options(streams=("vector",)),
    "keyword and vectors, minmax": Options(streams=("keyword", "vector"), fusion="minmax"),
    "keyword and vectors, rrf, k 1": Options(streams=("keyword", "vector")),
    "keyword and vectors, minmax, ten reread": Options(
        streams=("keyword", "vector"), fusion="minmax", rerank="ms-marco-MiniLM-L-12-v2"
    ),
}


def main() -> None:
    """Measure, choose, write the page."""
    embedder = catalogue.open_cached(EMBEDDER, ROOT)
    known: dict[str, object] = {}
    parts = [("wiki", 5, fixtures.load(ROOT / "data/probes.json"))]
    parts.append(("notes", 3, fixtures.load(ROOT / "data/notes/recall_v2.json")))
    talks = list(dialogues(Path(sys.argv[1]))) if len(sys.argv) > 1 else []
    found = []
    for name, options in (SINGLE | FUSED).items():
        path = LocalPath(name, options, embedder if "vector" in options.streams else None, True, known)  # type: ignore[arg-type]
        for fixture_name, k, fixture in parts:
            half = split.halves(fixture)
            found += [(name, fixture_name, half[id_], hit) for id_, hit in hits(path, fixture, k).items()]
        for at, fixture in enumerate(talks):
            half_of = "tune" if at < len(talks) / 2 else "test"
            found += [(name, "dialogues", half_of, hit) for hit in hits(path, fixture, 5)]
        print(name, flush=True)
    table = pd.DataFrame(found, columns=["path", "fixture", "half", "hit"])
    threads = []
    for name, options in THREADS.items() if talks else ():
        reranker = catalogue.open_reranker(options.rerank, ROOT) if options.rerank else None
        vectors = embedder if "vector" in options.streams else None
        path = LocalPath(name, options, vectors, True, known, reranker)  # type: ignore[arg-type]
        threads.append((name, [hits(path, fixture, 5) for fixture in talks]))
        print(name, flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(page(table, threads, talks), encoding="utf-8")


def hits(path: LocalPath, fixture: Fixture, k: int) -> pd.Series[bool]:
    """By case id: whether an expected memory is among the first k."""
    answerable = fixture.model_copy(update={"cases": tuple(case for case in fixture.cases if case.expected)})
    rows = pipeline.run_cases(answerable, path, top_k=k, quiet=True)
    return pd.Series((rows["rank"] <= k).to_numpy(), index=rows["case_id"])


def page(table: pd.DataFrame, threads: list[tuple[str, list[pd.Series[bool]]]], talks: list[Fixture]) -> str:
    """The page, with every count in it."""
    counted = table.groupby(["path", "fixture", "half"], sort=False)["hit"].agg(["sum", "count"])
    shares = (counted["sum"] / counted["count"]).unstack(["fixture", "half"])
    fused = shares.loc[list(FUSED)]
    tune, test = (fused.xs(half, axis=1, level="half").mean(axis=1) for half in ("tune", "test"))
    chosen = tune.idxmax()
    names = list(dict.fromkeys(table["fixture"]))
    lines = [
        *HEAD.strip().splitlines(),
        "",
        f"Chosen on the tune halves (mean of the three shares): **{chosen}**, {tune[chosen]:.1%}; on the",
        f"test halves it has {test[chosen]:.1%}. The best there, in hindsight, is {test.idxmax()} with "
        f"{test.max():.1%}.",
        f"Where recall.toml says nothing it is rrf with k 1 and equal weights: {tune['rrf, k 1']:.1%} on the "
        f"tune halves,",
        f"{test['rrf, k 1']:.1%} on the test halves. Weights that differ by less than the intervals were not "
        "worth",
        "a default that needs explaining.",
        "",
        "| path | " + " | ".join(f"{name}, {half}" for name in names for half in ("tune", "test")) + " |",
        "|---|" + "---|" * (2 * len(names)),
    ]
    for path in dict.fromkeys(table["path"]):
        cells = [
            share(int(counted.loc[(path, name, half), "sum"]), int(counted.loc[(path, name, half), "count"]))
            for name in names
            for half in ("tune", "test")
        ]
        lines.append(f"| {path} | {' | '.join(cells)} |")
    if talks:
        lines += ["", *TALKS.strip().splitlines(), ""]
        lines += ["| path | " + " | ".join(talk.name for talk in talks) + " | all |"]
        lines += ["|---|" + "---|" * (len(talks) + 1)]
        for name, found in threads:
            cells = [f"{int(one.sum())}/{len(one)}" for one in found]
            total = share(sum(int(one.sum()) for one in found), sum(map(len, found)))
            lines.append(f"| {name} | {' | '.join(cells)} | {total} |")
    return "\n".join(lines) + "\n"


HEAD = """
# Which fusion is the default, and why

Made by `python -m bench.fusions`. Three unlike fixtures: the wiki (recall@5), the notes of `recall_v2`
(recall@3) and four dialogues of LoCoMo (turns, recall@5 within the dialogue, categories 1 to 4; the data is
CC BY-NC 4.0 and not in this repository). Wiki and notes are halved as `recall gate choose` halves them, the
dialogues two and two. Every fused path has the streams keyword, entity, graph and vector of
multilingual-e5-small-q4, the mean of the store taken from the vectors. Shares with counts and 95% Wilson
intervals.
"""
TALKS = """
## Threads

What a memory's neighbours, its date and its speaker are worth, on the dialogues. The weights (neighbours
0.5, date 0.5, speaker 0.5; two neighbours on either side) were looked for on these four dialogues:
whichever one was left out, the other three chose the same. Notes without a thread have no neighbours, and
nothing changes for them. The reranker reads ten hits, each between its neighbours.
"""


def dialogues(path: Path) -> Iterator[Fixture]:
    """LoCoMo's dialogues as fixtures: a turn is a memory, a session a thread."""
    for told in json.loads(path.read_text(encoding="utf-8")):
        talk = told["conversation"]
        memories = []
        for number in range(1, 60):
            turns = talk.get(f"session_{number}")
            if not isinstance(turns, list):
                continue
            at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
            for turn in turns:
                caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
                memories.append(
                    Memory(
                        id=turn["dia_id"],
                        text=turn["text"] + caption,
                        speaker=turn["speaker"],
                        thread=str(number),
                        position=len(memories),
                        ts=at.replace(tzinfo=UTC).isoformat(),
                        lang="en",
                    )
                )
        known = {memory.id for memory in memories}
        cases = []
        for at_case, asked in enumerate(told["qa"]):
            evidence = re.split(r"[;,\s]+", " ".join(asked.get("evidence", [])))
            expected = tuple(dict.fromkeys(id_ for id_ in evidence if id_ in known))
            if asked["category"] != 5 and expected:
                cases.append(Case(id=f"q{at_case}", query=asked["question"], lang="en", expected=expected))
        yield Fixture(
            format=1,
            name=told["sample_id"],
            version="1.0.0",
            isolation="shared",
            memories=tuple(memories),
            cases=tuple(cases),
        )


if __name__ == "__main__":
    main()
