"""What several commands ask for: a path, and the gate it is judged behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recall_core import config
from recall_core.records import InputError

if TYPE_CHECKING:
    from recall_core.gates import Gate

PathName = Annotated[
    str, typer.Option("--path", help="An embedder's name, keyword, hybrid, or one of recall.toml.")
]
Embedder = Annotated[str, typer.Option(help="An embedder's name, as `recall models list` gives it.")]
MinScore = Annotated[float | None, typer.Option(help="Absolute gate. Default: recall.toml.")]
Delta = Annotated[float | None, typer.Option(help="Margin gate. Default: recall.toml.")]


def refuse_wordless(question: str) -> None:
    """Raises InputError on a question without a word: an embedder would answer it all the same."""
    from recall_core.words import tokens

    if not tokens(question):
        raise InputError(f"the question {question!r} holds no word; ask something")


def gate(
    name: str, root: Path, settings: config.Config, min_score: float | None, delta: float | None
) -> Gate:
    """The gate the path ships with, with what was given on the command line instead."""
    from recall_core import catalogue
    from recall_core.gates import Gate

    shipped = catalogue.gate_of(name, root, settings)
    return Gate(
        shipped.min_score if min_score is None else min_score, shipped.delta if delta is None else delta
    )
