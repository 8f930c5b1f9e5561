"""`recall run`: ask a fixture, and print what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recall_core import config
from recall_core.commands import options
from recall_core.commands.options import Delta, MinScore, PathName
from recall_core.records import InputError

LISTED = 10
"""Cases that did not pass and are named."""


def run(
    target: Annotated[Path, typer.Argument(help="A fixture file.")],
    path: PathName = "hash",
    min_score: MinScore = None,
    delta: Delta = None,
    top_k: Annotated[int, typer.Option(min=1, help="The k of recall@k.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Also write the run to this folder.")] = None,
    trec: Annotated[Path | None, typer.Option(help="Also write TREC run and qrels files there.")] = None,
) -> None:
    """Ask every case of a fixture, and print what came of it."""
    from recall_core import catalogue, fixtures, lint, pipeline, runs, scoring
    from recall_core import trec as trec_files
    from recall_core.reporting import report

    root = config.find_root()
    settings = config.load(root / config.NAME)
    if target.is_dir():
        raise InputError(
            f"{target} is a folder; write a fixture beside it that names it as its memories, "
            f'{{"vault": "{target.name}"}}, with your questions, and give that'
        )
    loaded = fixtures.load(target)
    if odd := [*fixtures.remarks(loaded), *lint.summary(lint.lint(loaded))]:
        typer.echo("\n".join([*odd, f"all of them: recall fixture lint {target}"]), err=True)
    shipped = options.gate(path, root, settings, min_score, delta)
    result = pipeline.evaluate(
        loaded,
        catalogue.open_path(path, root, settings),
        gate=shipped,
        sweep=settings.sweep,
        top_k=top_k,
    )
    typer.echo(f"{path} on the {len(result.rows)} cases of {loaded.name}; the gate: {shipped}")
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
    if trec:
        typer.echo(trec_files.write(result.rows, trec, path))
