"""`recall gate`: choose one that keeps a promise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recall_core import config
from recall_core.records import InputError

SIGNALS = (
    "top1, margin, distinct_margin, keyword_score, vector_score, vector_margin, agreement, coverage, subject"
)
app = typer.Typer(help="Gates: choose one that keeps a promise.", no_args_is_help=True)


@app.callback()
def _gates() -> None:
    """Gates: choose one that keeps a promise."""


@app.command("choose")
def gate_choose(
    fixture: Annotated[Path | None, typer.Option(help="Default: what recall.toml says under choice.")] = None,
    path: Annotated[str | None, typer.Option(help="Default: what recall.toml says under choice.")] = None,
    signal: Annotated[str, typer.Option(help=f"What must be above the threshold: {SIGNALS}.")] = "margin",
    max_false: Annotated[float, typer.Option(help="Promise: at most this share of false recall ...")] = 0.05,
    confidence: Annotated[float, typer.Option(help="... with this confidence.")] = 0.9,
    out: Annotated[Path, typer.Option(help="Where the gate goes, for a daemon to read.")] = Path("gate.json"),
) -> None:
    """Choose the gate that answers most and keeps a promise on false recall, or refuse."""
    from recall_core import catalogue, fixtures
    from recall_core.choosing import gate_file, gate_study

    root = config.find_root()
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}; make it, or name another")
    settings = config.load(root / config.NAME)
    shipped = next(iter(settings.choice), config.ChoiceConfig(fixture=settings.fixture))
    name, cases = path or shipped.path, fixtures.load(fixture or root / shipped.fixture)
    study = gate_study.choose(
        cases,
        catalogue.open_path(name, root, settings),
        signal=signal,
        max_false=max_false,
        confidence=confidence,
    )
    gate_file.save(study.file, out)
    typer.echo(f"chosen for {name} on the {len(cases.cases)} cases of {cases.name}")
    for said in study.lines():
        typer.echo(said)
    typer.echo(f"saved to {out}")
