"""`recall run`: ask a fixture or a wiki, and print what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from recall_core import config
from recall_core.commands import options
from recall_core.commands.options import Delta, Embedder, MinScore
from recall_core.records import InputError

if TYPE_CHECKING:
    import pandas as pd

LISTED = 10
"""Cases that did not pass and are named."""


def run(
    target: Annotated[Path, typer.Argument(help="A fixture file, or a folder of Markdown pages.")],
    embedder: Embedder = "hash",
    probes: Annotated[Path | None, typer.Option(help="For a folder: the questions and their pages.")] = None,
    observations: Annotated[Path | None, typer.Option(help="For a folder: raw observations, JSONL.")] = None,
    min_score: MinScore = None,
    delta: Delta = None,
    store: Annotated[Literal["memory", "sqlite"], typer.Option(help="Which store to ask.")] = "memory",
    top_k: Annotated[int, typer.Option(min=1, help="The k of recall@k.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Also write the run to this folder.")] = None,
    trec: Annotated[Path | None, typer.Option(help="Also write TREC run and qrels files there.")] = None,
) -> None:
    """Ask every case of a fixture, or every probe of a wiki, and print what came of it."""
    root = config.find_root()
    settings = config.load(root / config.NAME)
    if target.is_dir():
        _run_pages(target, probes, observations, embedder, settings, root, trec)
        return
    if probes or observations:
        raise InputError(
            f"{target} is a fixture and brings its own questions; probes are for a folder of pages"
        )
    from recall_core import catalogue, fixtures, lint, pipeline, runs, scoring
    from recall_core.reporting import report

    loaded = fixtures.load(target)
    if odd := [*fixtures.remarks(loaded), *lint.summary(lint.lint(loaded))]:
        typer.echo("\n".join([*odd, f"all of them: recall fixture lint {target}"]), err=True)
    shipped = options.gate(settings, embedder, min_score, delta)
    result = pipeline.evaluate(
        loaded,
        catalogue.open_embedder(embedder, root),
        gate=shipped,
        sweep=settings.sweep,
        store=store,
        top_k=top_k,
    )
    typer.echo(f"{embedder} on the {len(result.rows)} cases of {loaded.name}; the gate: {shipped}")
    for row in report.results_table([result]):
        typer.echo(f"{row[0]:<48} {row[1]}")
    for said in report.sweep_lines(result.margin, "delta"):
        typer.echo(said)
    failed = result.rows[~result.rows["outcome"].isin(scoring.PASSED)]
    for case in failed[:LISTED].itertuples():
        on_top = f"{case.ids[0]} ({case.scores[0]:.4f})" if len(case.ids) else "nothing"
        said = f"{case.outcome.replace('_', ' ')}: {case.case_id}: {case.query}: on top {on_top}"
        typer.echo(report.clean(said))
    if len(failed) > LISTED:
        rest = f"in {out}/run.jsonl" if out else "listed with --out FOLDER, in run.jsonl"
        typer.echo(f"{len(failed) - LISTED} more did not pass: all of them are {rest}")
    if out:
        typer.echo(runs.save(result, {}, str(out)))
    _write_trec(result.rows, trec, embedder)


def _run_pages(
    folder: Path,
    probes: Path | None,
    observations: Path | None,
    embedder: str,
    settings: config.Config,
    root: Path,
    trec: Path | None,
) -> None:
    from recall_core import catalogue, page_study, stats, vault, wiki

    if probes is None:
        raise InputError(f"{folder} is a folder of pages; give its questions with --probes FILE")
    read = vault.read(folder)
    raw = vault.read_observations(observations) if observations else []
    options = wiki.options_of(settings.pages)
    asked = page_study.asked([*read.pages, *raw], probes, catalogue.open_embedder(embedder, root), options)
    for name, value in page_study.inventory(read, raw, asked).itertuples(index=False):
        typer.echo(f"{name:<30} {value}")
    for row in page_study.modes(asked).itertuples():
        rank = f", MRR {row.mrr:.3f}" if row.n else ""
        typer.echo(f"recall@5, {row.mode:<20} {stats.share(row.hits, row.n)}{rank}")
    for row in page_study.lost(asked).itertuples():
        typer.echo(f"lost: {row.case_id}: {row.query}: wanted {row.expected or 'nothing'}, got {row.top}")
    _write_trec(asked.rows(options), trec, "hybrid")


def _write_trec(rows: pd.DataFrame, folder: Path | None, tag: str) -> None:
    if folder:
        from recall_core import trec

        typer.echo(trec.write(rows, folder, tag))
