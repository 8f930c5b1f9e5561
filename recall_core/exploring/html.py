"""What exploring shows, as HTML: the same with sliders and on a page that has none. All texts are escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO

import matplotlib.style
import pandas as pd
from matplotlib.figure import Figure

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
NARROW = 28
"""Characters of an id that is kept on one line."""
SAID = {
    "answered": "answered",
    "silenced": "silenced",
    "withheld": "withheld",
    "misled": "misled",
    "kept_quiet": "kept quiet",
    "false_recall": "false recall",
}
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
.recall td, .recall th {padding: 3px 8px; text-align: left !important; vertical-align: top !important;
  white-space: normal; line-height: 1.4; max-width: none;
  border: 0; border-bottom: 1px solid var(--jp-border-color2, #e0e0e0);}
.recall th {font-weight: 600; color: var(--jp-ui-font-color2, #555);}
.recall td.t {min-width: 7em;} .recall td.i {min-width: 12em;}
.recall th, .recall .i {overflow-wrap: break-word;}
.recall .n {text-align: right !important; white-space: nowrap; font-variant-numeric: tabular-nums;}
.recall .w {white-space: nowrap;} .recall .w wbr {display: none;}
@container (max-width: 480px) {
  .recall td, .recall th {padding: 3px 5px;}
  .recall td.i {min-width: 0;}
  .recall .w {white-space: normal; overflow-wrap: break-word;} .recall .w wbr {display: inline;}
}
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
.recall-stack {display: grid !important; overflow: hidden;}
.recall-stack > * {grid-area: 1 / 1; margin: 0 !important;}
.recall-stack img {width: 100%; height: auto;}
.recall-layer {position: relative; width: 100%;}
.recall-star {position: absolute; transform: translate(-50%, -50%); font-size: 26px; line-height: 1;
  color: #cc3311; -webkit-text-stroke: 1px #fff;}
.jp-OutputArea:has(.recall-live) .jp-OutputArea-child:has(.recall-still, .jp-RenderedImage)
  {display: none;}
.recall h4 {margin: 8px 0 2px; font-size: 13px; font-weight: 600;}
</style>"""


def page(*parts: str) -> str:
    """Parts with the style they need, as one output."""
    return f'{STYLE}<div class="recall recall-still">{"".join(parts)}</div>'


def note(text: str) -> str:
    """A line in passing; nothing for an empty text."""
    return f'<p class="dim">{escape(text)}</p>' if text else ""


def counts(step: Step, beaten: pd.Series[float] | None = None) -> str:
    """A tile an outcome, how it changed, and whether another setting would be better."""
    silent = int(step.counts[list(explore.SILENT)].sum())
    answerable = int(step.counts.sum()) - silent
    tiles = []
    for name, meaning in MEANING.items():
        of = silent if name in explore.SILENT else answerable
        change = int(step.counts[name] - step.before[name])
        good = (change > 0) == (name in (*explore.GOOD, "withheld"))
        moved = f' <span class="{"good" if good else "bad"}">{change:+d}</span>' if change else ""
        tiles.append(
            f'<div class="tile" title="{meaning}"><b>{step.counts[name]}</b><span class="dim">/{of}</span>'
            f'{moved}<br>{SAID[name]}<br><span class="dim">{meaning}</span></div>'
        )
    better = "No setting of the two sliders is better on both answered and false recall."
    if beaten is not None:
        better = (
            f"Beaten by min_score {beaten['min_score']:g}, delta {beaten['delta']:g}: "
            f"{beaten['answered']:.0f} answered, {beaten['false_recall']:.0f} false recalls."
        )
    return f'<div class="tiles">{"".join(tiles)}</div>{note(better)}'


def flips(step: Step, before: Gate) -> str:
    """Which cases flip, worse first."""
    n = len(step.flips)
    if not n:
        return f"<h4>No case flips against {escape(str(before))}</h4>"
    worse = n - int(step.flips["better"].sum())
    lines = [
        (
            "▲\N{NO-BREAK SPACE}better" if row.better else "▼\N{NO-BREAK SPACE}worse",
            row.case_id,
            row.query,
            f"{SAID[row.before]} → {SAID[row.after]}",
            _number(row.top1),
            _number(row.margin),
        )
        for row in step.flips.head(MOST_FLIPS).itertuples()
    ]
    more = note(f"and {n - MOST_FLIPS} more") if n > MOST_FLIPS else ""
    flip = "case flips" if n == 1 else "cases flip"
    head = f"<h4>{n} {flip} against {escape(str(before))}: {n - worse} for the better, {worse} not</h4>"
    table = tabulated(
        ("", "case", "question", "outcome", "score", "margin"), lines, numbers=(4, 5), words=(0, 1, 3)
    )
    return f'{head}<div class="scroll">{table}{more}</div>'


def asked(found: Asked, gate: Gate) -> str:
    """What the gate says and why, then the fused hits with what each stream gave them, then each stream."""
    said = gates.explain(found.ranking, gate)
    top = found.ranking.hits[:1]
    spoken = found.memories[top[0].id].text if top else ""
    verdict = ruling(said, spoken if said.startswith("spoken") else "") + note(found.remark)
    fused = found.fused.hits
    if top and fused and fused[0].id != top[0].id:
        verdict += note(
            f"The gate reads {found.path}, and so would say {top[0].id}. All streams together put "
            f"{fused[0].id} first."
        )
    if not fused:
        return verdict + note("No stream found anything.")
    lines = [
        (
            at,
            hit.id,
            _short(found.memories[hit.id]),
            f"{hit.score:.4f}",
            " + ".join(f"{part.stream} {part.contribution:.4f} (rank {part.rank})" for part in hit.parts),
        )
        for at, hit in enumerate(fused[:TOP], 1)
    ]
    every = "<h4>fused: all streams together</h4>" + tabulated(
        ("", "memory", "text", "score", "from"), lines, numbers=(0, 3), words=(1,)
    )
    filled_first = sorted(found.rankings, key=lambda ranking: not ranking.hits)
    streams = "".join(_stream(ranking, found) for ranking in filled_first)
    return f'{verdict}{every}<div class="streams">{streams}</div>'


def _stream(ranking: Ranking, found: Asked) -> str:
    head = f"<h4>{ranking.stream}"
    if not ranking.hits:
        return f"<div>{head}</h4>{note('found nothing')}</div>"
    margin = ranking.hits[0].score - ranking.hits[1].score if len(ranking.hits) > 1 else math.inf
    lines = [
        (at, hit.id, _short(found.memories[hit.id], 70), f"{hit.score:.4f}")
        for at, hit in enumerate(ranking.hits[:TOP], 1)
    ]
    table = tabulated(("", "memory", "text", "score"), lines, numbers=(0, 3), words=(1,))
    return f"<div>{head}: margin {_number(margin)}</h4>{table}</div>"


def neighbours(run: Run, case_id: str, table: pd.DataFrame, gate: Gate, remark: str = "") -> str:
    """A case: what was asked, what came out on top, where the expected memory stood, whom the winner beat."""
    line = run.row(case_id)
    row = line.iloc[0]
    said = gates.explain(explore.recorded(row), gate) if not row["failed"] else f"failed: {row['error']}"
    outcome = SAID[str(gates.outcomes(line, gate).iloc[0])]
    case = run.cases.get(case_id)
    why = f"Must stay silent: {case.silent_because}" if case and case.silent_because else ""
    head = f"<h4>{escape(case_id)}, {outcome}: “{escape(row['query'])}”</h4>{ruling(said)}{note(why)}"
    lines = [
        (
            "not found" if math.isnan(line.rank) else f"{line.rank:.0f}",
            line.id,
            line.text,
            _number(line.score) if line.score == line.score else "not kept",
            "answers" if line.expected else "",
            line.wins or "",
        )
        for line in table.itertuples()
    ]
    ranked = tabulated(
        ("rank", "memory", "text", "score", "", "wrongly first"),
        lines,
        numbers=(0, 3, 5),
        words=(1, 4),
        marked=[bool(expected) for expected in table["expected"]],
    )
    return head + ranked + note(remark) + _hub(run, row)


def _hub(run: Run, row: pd.Series[float]) -> str:
    if not len(row["ids"]) or row["ids"][0] in row["expected"]:
        return ""
    winner = row["ids"][0]
    queries = run.hubs[winner]
    if len(queries) == 1:
        return note(f"{winner} comes out on top of this question alone: it is near, it is no hub.")
    listed = "".join(f"<li>{escape(query)}</li>" for query in queries[: 2 * TOP])
    more = f"<li>and {len(queries) - 2 * TOP} more</li>" if len(queries) > 2 * TOP else ""
    said = f"{winner} beat it, and comes out on top of {len(queries)} questions that it does not answer"
    return f"<h4>A hub: {escape(said)}</h4><ul>{listed}{more}</ul>"


@dataclass(frozen=True)
class Picture:
    """A frontier as a picture, and where on it counts lie: percent of its width and height from top left."""

    png: bytes
    left: tuple[float, float]
    """Of 0 false recalls, and what one more adds."""
    top: tuple[float, float]
    """Of 0 answered, and what one more adds."""

    def star(self, counts: pd.Series[int]) -> str:
        """The mark that is laid on the picture."""
        x = self.left[0] + counts["false_recall"] * self.left[1]
        y = self.top[0] + counts["answered"] * self.top[1]
        place = f"left: {x:.2f}%; top: {y:.2f}%"
        size = f"aspect-ratio: {SIZE[0]} / {SIZE[1]}"
        star = f'<span class="recall-star" style="{place}">★</span>'
        return f'<div class="recall-layer" style="{size}">{star}</div>'


def picture(table: pd.DataFrame, counts: pd.Series[int], *, star: bool) -> Picture:
    """Draw a frontier; without `star`, one is laid on it."""
    with matplotlib.style.context(plots.STYLE):
        figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100, layout="constrained")
        ax = explore.draw(table, figure.subplots(), counts, star=star)
        held = BytesIO()
        figure.savefig(held, format="png", dpi=200, metadata={"Software": None})
    (x0, y0), (x1, y1) = ax.transData.transform([(0, 0), (1, 1)]) / figure.bbox.size * 100
    return Picture(held.getvalue(), (x0, x1 - x0), (100 - y0, y0 - y1))


def ruling(said: str, spoken: str = "") -> str:
    """What the gate says of a question, and what is spoken."""
    kind = "spoken" if said.startswith("spoken") else "dim"
    quoted = f"<br>“{escape(spoken[:300])}”" if spoken else ""
    return f'<div class="said {kind}"><b>{escape(said)}</b>{quoted}</div>'


def tabulated(
    heads: Sequence[str],
    lines: Iterable[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
    words: Sequence[int] = (),
    marked: Sequence[bool] = (),
) -> str:
    """A table of plain values.

    `numbers`, `words`: columns set right, and those broken at no letter. `marked`: the lines that stand out.
    """
    lines = list(lines)
    kinds = [' class="t"'] * len(heads)
    for at in numbers:
        kinds[at] = ' class="n"'
    for at in words:
        narrow = all(len(str(line[at])) <= NARROW for line in lines)
        kinds[at] = ' class="w"' if narrow else ' class="i"'
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, heads, strict=True))
    body = []
    for at, line in enumerate(lines):
        shown = (_id(cell) if column in words else escape(str(cell)) for column, cell in enumerate(line))
        cells = "".join(f"<td{kind}>{text}</td>" for kind, text in zip(kinds, shown, strict=True))
        kind = ' class="hit"' if at < len(marked) and marked[at] else ""
        body.append(f"<tr{kind}>{cells}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _id(cell: object) -> str:
    """A long id breaks behind a slash or an underscore, not inside a word."""
    return escape(str(cell)).replace("/", "/<wbr>").replace("_", "_<wbr>")


def _short(memory: Memory, length: int = 160) -> str:
    text = " ".join(f"{memory.title}: {memory.text}".split()) if memory.title else memory.text
    return text if len(text) <= length else f"{text[:length].rstrip()}…"


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "no runner-up" if value > 0 else "none"
