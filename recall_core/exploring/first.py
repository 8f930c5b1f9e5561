"""The first run, for a newcomer: a case read aloud, numbers in words, a question to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from recall_core import fixtures, gates, plots, stats
from recall_core.exploring import explore
from recall_core.exploring.html import MEANING, note, page, plain, ruling, tabulated
from recall_core.gates import Gate
from recall_core.paths import ReadPath
from recall_core.records import Fixture, Memory

FILLER = "about something else"


def story(fixture: Fixture, rows: pd.DataFrame, case_id: str, gate: Gate) -> str:
    """One case read aloud: the question, the notes it brings, the scores the run kept, and the verdict.

    `rows` need `outcome`.
    """
    row = rows[rows["case_id"] == case_id].iloc[0]
    case = next(case for case in fixture.cases if case.id == case_id)
    texts = {memory.id: memory.text for memory in fixtures.memories_for(fixture, case)}
    score = {id_: f"{score:.4f}" for id_, score in zip(row["ids"], row["scores"], strict=True)}
    role = dict.fromkeys((memory.id for memory in fixture.filler), FILLER)
    role |= dict.fromkeys(case.expected, "answers it")
    shown = [*score, *(id_ for id_ in texts if id_ not in score and role.get(id_) != FILLER)]
    lines = [{"score": score.get(id_, "lower"), "note": texts[id_], "": role.get(id_, "")} for id_ in shown]
    truth = "One of the notes answers it."
    return page(
        f"<h4>“{escape(case.query)}”</h4>",
        note(truth if case.answerable else f"No note answers it. {case.silent_because}"),
        tabulated(lines, [id_ in case.expected for id_ in shown]),
        ruling(gates.explain(explore.recorded(row), gate)),
        f"<p>This is called <b>{plain(row['outcome'])}</b>: {MEANING[row['outcome']]}.</p>",
    )


def shares(summary: pd.DataFrame, meanings: Mapping[str, str]) -> str:
    """Some metrics of a run in words: the count, the share, its interval. `meanings`: metric -> its words."""
    lines = []
    for metric, counted in summary[summary["slice"] == "all"].set_index("metric").loc[[*meanings]].iterrows():
        hits, n = counted["hits"], counted["n"]
        low, high = stats.wilson(hits, n)
        line = {"": plain(str(metric)), "what it counts": meanings[str(metric)], "cases": f"{hits} of {n}"}
        lines.append(
            line | {"share": f"{hits / n:.0%}" if n else "no cases", "interval": f"{low:.0%} to {high:.0%}"}
        )
    return page(tabulated(lines))


def leads(rows: pd.DataFrame, ax: Axes, gate: Gate) -> Axes:
    """A dot a question: how far its best note is ahead of the second. Filled: it was said aloud."""
    said = gates.opened(rows, gate)
    for open_ in (True, False):
        for at, (group, margin) in enumerate(plots.groups(rows[said == open_], "margin").items()):
            lead = np.sort(margin[np.isfinite(margin)])
            height = at + 0.16 * np.sin(2.4 * np.arange(len(lead)))
            colour = plots.COLOURS[group]
            ax.scatter(lead, height, s=42, color=colour if open_ else "none", edgecolors=colour)
    ax.axvline(gate.delta or 0.0, color="#222222", linestyle="--", linewidth=1.3)
    ax.set_yticks(range(3), ["the right note is first", "a wrong note is first", "no note answers"])
    ax.set_ylim(2.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("margin: the lead of the best note over the second. Filled: said aloud")
    return ax


def try_out(question: str, notes: Sequence[str], path: ReadPath, gate: Gate) -> str:
    """A question of a few notes given as texts: best first, and what the gate says."""
    texts = {f"note {n}": text for n, text in enumerate(notes, 1)}
    ranking = path.open([Memory(id=id_, text=text) for id_, text in texts.items()]).search(
        question, len(notes)
    )
    lines = [{"score": f"{hit.score:.4f}", "note": texts[hit.id]} for hit in ranking.hits]
    return page(f"<h4>“{escape(question)}”</h4>", tabulated(lines), ruling(gates.explain(ranking, gate)))
