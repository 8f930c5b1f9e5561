"""The first run, for a newcomer: a case read aloud, numbers in words, a question to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from recall_core import fixtures, gates, plots, stats
from recall_core.exploring import explore
from recall_core.exploring.html import MEANING, SAID, note, page, ruling, tabulated
from recall_core.gates import Gate
from recall_core.paths import ReadPath
from recall_core.records import Fixture, Memory


def story(fixture: Fixture, rows: pd.DataFrame, case_id: str, gate: Gate) -> str:
    """One case read aloud: the question, the notes it brings, the scores the run kept, and the verdict.

    `rows` need `outcome`.
    """
    row = rows[rows["case_id"] == case_id].iloc[0]
    case = next(case for case in fixture.cases if case.id == case_id)
    texts = {memory.id: memory.text for memory in fixtures.memories_for(fixture, case)}
    score = dict(zip(row["ids"], row["scores"], strict=True))
    filler = {memory.id for memory in fixture.filler}
    shown = [*score, *(id_ for id_ in texts if id_ not in score and id_ not in filler)]
    lines = [
        (
            f"{score[id_]:.4f}" if id_ in score else "lower",
            texts[id_],
            "answers it" if id_ in case.expected else "about something else" if id_ in filler else "",
        )
        for id_ in shown
    ]
    marked = [id_ in case.expected for id_ in shown]
    truth = (
        "One of the notes answers it." if case.answerable else f"No note answers it. {case.silent_because}"
    )
    outcome = str(row["outcome"])
    return page(
        f"<h4>“{escape(case.query)}”</h4>{note(truth)}",
        tabulated(("score", "note", ""), lines, numbers=(0,), words=(2,), marked=marked),
        ruling(gates.explain(explore.recorded(row), gate)),
        f"<p>This is called <b>{SAID[outcome]}</b>: {MEANING[outcome]}.</p>",
    )


def shares(summary: pd.DataFrame, meanings: Mapping[str, str]) -> str:
    """Some metrics of a run in words: the count, the share, its interval. `meanings`: metric -> its words."""
    everything = summary[summary["slice"] == "all"].set_index("metric")
    lines = []
    for metric, meaning in meanings.items():
        hits, n = int(everything.loc[metric, "hits"]), int(everything.loc[metric, "n"])
        low, high = stats.wilson(hits, n)
        share = f"{hits / n:.0%}" if n else "no cases"
        lines.append((metric.replace("_", " "), meaning, f"{hits} of {n}", share, f"{low:.0%} to {high:.0%}"))
    heads = ("", "what it counts", "cases", "share", "interval")
    return page(tabulated(heads, lines, numbers=(2, 3, 4), words=(0,)))


def leads(rows: pd.DataFrame, ax: Axes, gate: Gate) -> Axes:
    """A dot a question: how far its best note is ahead of the second. Filled: it was said aloud."""
    places = {"right": ["right_first"], "wrong": ["wrong_on_top", "tie_on_top"], "silent": ["silent"]}
    said = gates.opened(rows, gate)
    for at, (group, wanted) in enumerate(places.items()):
        asked = rows["place"].isin(wanted) & np.isfinite(rows["margin"])
        for open_ in (True, False):
            margin = np.sort(rows.loc[asked & (said == open_), "margin"])
            height = at + 0.16 * np.sin(2.4 * np.arange(len(margin)))
            colour = plots.COLOURS[group]
            ax.scatter(margin, height, s=42, color=colour if open_ else "none", edgecolors=colour)
    ax.axvline(gate.delta or 0.0, color="#222222", linestyle="--", linewidth=1.3)
    ax.set_yticks(range(3), ["the right note is first", "a wrong note is first", "no note answers"])
    ax.set_ylim(2.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("margin: the lead of the best note over the second. Filled: said aloud")
    return ax


def try_out(question: str, notes: Sequence[str], path: ReadPath, gate: Gate) -> str:
    """A question of a few notes given as texts: best first, and what the gate says."""
    memories = [Memory(id=f"note {n}", text=text) for n, text in enumerate(notes, 1)]
    ranking = path.open(memories).search(question, len(notes))
    texts = {memory.id: memory.text for memory in memories}
    lines = [(f"{hit.score:.4f}", texts[hit.id]) for hit in ranking.hits]
    head = f"<h4>“{escape(question)}”</h4>"
    return page(head, tabulated(("score", "note"), lines, numbers=(0,)), ruling(gates.explain(ranking, gate)))
