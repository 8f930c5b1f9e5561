"""What exploring shows, as HTML: the same with sliders and on a page that has none. All texts are escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from typing import Any

import matplotlib.style
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imsave

from recall_core import gates, plots
from recall_core.exploring import explore
from recall_core.exploring.ask import Asked
from recall_core.exploring.explore import Run, Step
from recall_core.gates import Gate
from recall_core.records import Memory, Ranking

MOST_FLIPS = 200
"""Rows of the list of flips: a person reads no more, and a browser draws these at once."""
TOP = 5
SIZE = (540, 330)
"""Of the picture, in CSS pixels."""
KINDS = dict.fromkeys(("rank", "score", "margin", "wrongly first", "cases", "share", "interval"), "n")
"""How a column is set, by its name: numbers to the right; room for a text; all others as words."""
KINDS |= dict.fromkeys(("text", "note", "question", "from", "what it counts"), "t")
MEANING = {
    "answered": "right, and said",
    "silenced": "right, but held back",
    "misled": "something wrong was said",
    "withheld": "wrong, and held back",
    "false_recall": "said something, knew nothing",
    "kept_quiet": "knew nothing, said nothing",
}
STYLE = """<style>
.recall {font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); max-width: 1080px;
  overflow-wrap: anywhere; color: var(--jp-ui-font-color1, #222);}
.recall .wide {container-type: inline-size; overflow-x: auto;}
.recall table {border-collapse: collapse; width: 100% !important; table-layout: auto !important;
  margin: 4px 0 10px !important; font-size: 13px;}
.recall tr {background: none !important;}
.recall td, .recall th {padding: 3px min(8px, 1.2cqw); text-align: left !important;
  vertical-align: top !important; white-space: normal; line-height: 1.4; max-width: none;
  border: 0; border-bottom: 1px solid var(--jp-border-color2, #e0e0e0);}
.recall th {overflow-wrap: break-word; font-weight: 600; color: var(--jp-ui-font-color2, #555);}
.recall td.t {min-width: 7em;}
.recall .n {text-align: right !important; white-space: nowrap; font-variant-numeric: tabular-nums;}
.recall .w span {display: inline-block; width: max-content; max-width: clamp(5em, 16cqw, 16em);
  overflow-wrap: break-word;}
.recall .dim {color: var(--jp-ui-font-color2, #666);}
.recall .good {color: #0072b2;} .recall .bad {color: #cc3311;}
.recall tr.hit td {background: rgba(0, 114, 178, .1);}
.recall-live .scroll .wide {max-height: 300px; overflow: auto;}
.recall .tiles {display: flex; flex-wrap: wrap; gap: 8px; margin: 6px 0;}
.recall .tile {border: 1px solid var(--jp-border-color2, #ddd); border-radius: 6px; padding: 4px 10px;
  min-width: 100px; flex: 1; line-height: 1.3;}
.recall .tile b {font-size: 19px; font-variant-numeric: tabular-nums;}
.recall .streams {display: grid; grid-template-columns: repeat(auto-fit, minmax(min(330px, 100%), 1fr));
  gap: 4px 24px;}
.recall .said {border-left: 4px solid; padding: 4px 12px; margin: 6px 0; font-size: 14px;}
.recall h4 {margin: 8px 0 2px; font-size: 13px; font-weight: 600;}
.jp-OutputArea:has(.recall-live) .jp-OutputArea-child:has(.recall-still, .jp-RenderedImage)
  {display: none;}
</style>"""


def page(*parts: str) -> str:
    """Parts with the style they need, as one output."""
    return f'{STYLE}<div class="recall recall-still">{"".join(parts)}</div>'


def note(text: str) -> str:
    """A line in passing; nothing for an empty text."""
    return f'<p class="dim">{escape(text)}</p>' if text else ""


def plain(outcome: str) -> str:
    """An outcome in words."""
    return outcome.replace("_", " ")


def counts(step: Step, beaten: pd.Series[float] | None = None) -> str:
    """A tile an outcome, how it changed, and whether another setting would be better."""
    silent = int(step.counts[list(explore.SILENT)].sum())
    answerable = int(step.counts.sum()) - silent
    tiles = []
    for name, meaning in MEANING.items():
        of = silent if name in explore.SILENT else answerable
        change = int(step.counts[name] - step.was[name])
        good = (change > 0) == (name in (*explore.GOOD, "withheld"))
        moved = f' <span class="{"good" if good else "bad"}">{change:+d}</span>' if change else ""
        tiles.append(
            f'<div class="tile" title="{meaning}"><b>{step.counts[name]}</b><span class="dim">/{of}</span>'
            f'{moved}<br>{plain(name)}<br><span class="dim">{meaning}</span></div>'
        )
    better = "No setting of the two sliders is better on both answered and false recall."
    if beaten is not None:
        better = (
            f"Beaten by min_score {beaten['min_score']:g}, delta {beaten['delta']:g}: "
            f"{beaten['answered']:.0f} answered, {beaten['false_recall']:.0f} false recalls."
        )
    return f'<div class="tiles">{"".join(tiles)}</div>{note(better)}'


def flips(step: Step) -> str:
    """Which cases flip, worse first."""
    n, better = len(step.flips), int(step.flips["better"].sum())
    if not n:
        return f"<h4>No case flips against {step.before}</h4>"
    lines = [
        {
            "": "▲\N{NO-BREAK SPACE}better" if row.better else "▼\N{NO-BREAK SPACE}worse",
            "case": row.case_id,
            "question": row.query,
            "outcome": plain(f"{row.before} → {row.after}"),
            "score": _number(row.top1),
            "margin": _number(row.margin),
        }
        for row in step.flips.head(MOST_FLIPS).itertuples()
    ]
    more = note(f"and {n - MOST_FLIPS} more") if n > MOST_FLIPS else ""
    flip = "case flips" if n == 1 else "cases flip"
    head = f"<h4>{n} {flip} against {step.before}: {better} for the better, {n - better} not</h4>"
    return f'{head}<div class="scroll">{tabulated(lines)}{more}</div>'


def asked(found: Asked, gate: Gate) -> str:
    """What the gate says and why, then the fused hits with what each stream gave them, then each stream."""
    said = gates.explain(found.ranking, gate)
    fused, top = found.fused.hits, found.ranking.hits[:1]
    spoken = found.memories[top[0].id].text if said.startswith("spoken") else ""
    verdict = ruling(said, spoken) + note(found.remark)
    if top and fused and fused[0].id != top[0].id:
        verdict += note(
            f"The gate reads {found.path}, and so would say {top[0].id}. All streams together put "
            f"{fused[0].id} first."
        )
    if not fused:
        return verdict + note("No stream found anything.")
    lines = _hits(found.fused, found.memories, 160)
    for line, hit in zip(lines, fused, strict=False):
        parts = (f"{part.stream} {part.contribution:.4f} (rank {part.rank})" for part in hit.parts)
        line["from"] = " + ".join(parts)
    streams = ""
    for ranking in sorted(found.rankings, key=lambda ranking: not ranking.hits):
        scores = [hit.score for hit in ranking.hits[:2]]
        lead = f": margin {_number(scores[0] - scores[1] if scores[1:] else math.inf)}" if scores else ""
        shown = tabulated(_hits(ranking, found.memories, 70)) or note("found nothing")
        streams += f"<div><h4>{ranking.stream}{lead}</h4>{shown}</div>"
    every = f"<h4>fused: all streams together</h4>{tabulated(lines)}"
    return f'{verdict}{every}<div class="streams">{streams}</div>'


def _hits(ranking: Ranking, memories: Mapping[str, Memory], length: int) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for at, hit in enumerate(ranking.hits[:TOP], 1):
        memory = memories[hit.id]
        text = " ".join(f"{memory.title}: {memory.text}".split()) if memory.title else memory.text
        text = text if len(text) <= length else f"{text[:length].rstrip()}…"
        lines.append({"rank": at, "memory": hit.id, "text": text, "score": f"{hit.score:.4f}"})
    return lines


def neighbours(run: Run, case_id: str, table: pd.DataFrame, gate: Gate, remark: str = "") -> str:
    """A case: what was asked, what came out on top, where the expected memory stood, whom the winner beat."""
    line = run.rows[run.rows["case_id"] == case_id]
    row, case = line.iloc[0], run.cases.get(case_id)
    said = f"failed: {row['error']}" if row["failed"] else gates.explain(explore.recorded(row), gate)
    outcome = plain(gates.outcomes(line, gate).iloc[0])
    why = f"Must stay silent: {case.silent_because}" if case and case.silent_because else ""
    head = f"<h4>{escape(case_id)}, {outcome}: “{escape(row['query'])}”</h4>{ruling(said)}{note(why)}"
    lines = [
        {
            "rank": "not found" if math.isnan(hit.rank) else f"{hit.rank:.0f}",
            "memory": hit.id,
            "text": hit.text,
            "score": "not kept" if math.isnan(hit.score) else f"{hit.score:.4f}",
            "": "answers" if hit.expected else "",
            "wrongly first": hit.wins or "",
        }
        for hit in table.itertuples()
    ]
    head += tabulated(lines, table["expected"].tolist()) + note(remark)
    winner = row["ids"][0] if len(row["ids"]) else ""
    queries = run.hubs.get(winner, ()) if winner not in row["expected"] else ()
    if len(queries) == 1:
        head += note(f"{winner} comes out on top of this question alone: it is near, it is no hub.")
    elif queries:
        listed = [escape(query) for query in queries[: 2 * TOP]]
        listed += [f"and {len(queries) - 2 * TOP} more"] if len(queries) > 2 * TOP else []
        said = f"{winner} beat it, and comes out on top of {len(queries)} questions that it does not answer"
        head += f"<h4>A hub: {escape(said)}</h4><ul><li>{'<li>'.join(listed)}</ul>"
    return head


class Picture:
    """False recalls against answered: all settings of a run, their frontier, and a star that moves.

    What stands still is drawn once: a whole drawing takes a tenth of a second, and a slider waits for it.
    """

    def __init__(self, table: pd.DataFrame, counts: pd.Series[int]) -> None:
        """`table`: `explore.settings`; `counts`: cases by outcome."""
        with matplotlib.style.context(plots.STYLE):
            figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=200, layout="constrained")
            self.canvas: Any = FigureCanvasAgg(figure)
            self.ax = ax = figure.subplots()
            best = table[table["on_frontier"]].sort_values("false_recall")
            every, front = ([part["false_recall"], part["answered"]] for part in (table, best))
            ax.plot(*every, "o", markersize=4, color="#bbbbbb", label="a setting")
            colour = plots.COLOURS["right"]
            label = "frontier: no setting beats these"
            ax.plot(*front, "o-", drawstyle="steps-post", color=colour, label=label)
            (self.star,) = ax.plot([], [], "*", color=plots.COLOURS["silent"], label="this gate")
            self.star.set(markersize=17, markeredgecolor="white", zorder=5, animated=True)
            silent = counts[list(explore.SILENT)].sum()
            ax.set_xlabel(f"false recalls, of {silent} that must stay silent (left is better)")
            ax.set_ylabel(f"answered, of {counts.sum() - silent} (up is better)")
            ax.margins(0.06, 0.1)
            ax.locator_params(integer=True)
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, columnspacing=1.2, handletextpad=0.4)
            self.canvas.draw()  # type: ignore[no-untyped-call]
        self.still = self.canvas.copy_from_bbox(figure.bbox)  # type: ignore[no-untyped-call]

    def png(self, counts: pd.Series[int]) -> bytes:
        """The picture with its star at these counts."""
        self.canvas.restore_region(self.still)
        self.star.set_data([counts["false_recall"]], [counts["answered"]])
        self.ax.draw_artist(self.star)
        held = BytesIO()
        imsave(held, self.canvas.buffer_rgba(), format="png", pil_kwargs={"compress_level": 1})
        return held.getvalue()


def ruling(said: str, spoken: str = "") -> str:
    """What the gate says of a question, and what is spoken."""
    kind = "spoken" if said.startswith("spoken") else "dim"
    quoted = f"<br>“{escape(spoken[:300])}”" if spoken else ""
    return f'<div class="said {kind}"><b>{escape(said)}</b>{quoted}</div>'


def tabulated(lines: Sequence[Mapping[str, object]], marked: Sequence[bool] = ()) -> str:
    """A table of plain values by column; nothing without lines. `marked`: the lines that stand out."""
    if not lines:
        return ""
    body = ""
    for at, line in enumerate(lines):
        cells = (f'<td class="{KINDS.get(name, "w")}"><span>{_cell(it)}</span>' for name, it in line.items())
        body += f"<tr{' class=hit' if any(marked[at : at + 1]) else ''}>{''.join(cells)}"
    head = "".join(f'<th class="{KINDS.get(name, "w")}">{escape(name)}' for name in lines[0])
    return f'<div class="wide"><table><thead><tr>{head}<tbody>{body}</table></div>'


def _cell(value: object) -> str:
    """Escaped; what is long breaks behind a slash or an underscore, before it breaks inside a word."""
    return escape(str(value)).replace("/", "/<wbr>").replace("_", "_<wbr>")


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "no runner-up" if value > 0 else "none"
