"""`recall ask`: one question of a memory, why each hit is where it is, and whether it would be said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recall_core import config
from recall_core.commands import options
from recall_core.commands.options import Delta, MinScore
from recall_core.records import InputError

if TYPE_CHECKING:
    from recall_core.paths.local import LocalPath, LocalSession


def ask(
    memory: Annotated[Path, typer.Argument(help="A folder of Markdown pages, a fixture, or a store.")],
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    observations: Annotated[Path | None, typer.Option(help="Of a folder: raw observations, JSONL.")] = None,
    path: Annotated[
        str | None, typer.Option(help="A path's name. Default: that of the gate file, or hybrid.")
    ] = None,
    min_score: MinScore = None,
    delta: Delta = None,
    gate: Annotated[Path | None, typer.Option(help="A gate.json, as `recall gate choose` saves it.")] = None,
    lang: Annotated[str, typer.Option(help="The question's language, for gates that go by words.")] = "en",
    top_k: Annotated[int, typer.Option(min=1, help="How many to show.")] = 5,
) -> None:
    """Ask one question: what comes out, what each stream gave it, and whether the gate would speak it."""
    from recall_core import catalogue, gates, signals, words
    from recall_core.choosing import gate_file
    from recall_core.pipeline import DEPTH
    from recall_core.reporting.report import clean

    options.refuse_wordless(question)
    if gate and (min_score, delta) != (None, None):
        raise InputError("--gate holds thresholds of its own; give it without --min-score and --delta")
    root = config.find_root()
    settings = config.load(root / config.NAME)
    promised = gate_file.load(gate) if gate else None
    name = path or (promised.path if promised else "hybrid")
    opened = catalogue.open_path(name, root, settings)
    if promised:
        promised.check(opened.fingerprint)
    session = _session(opened, memory, observations)
    ranking = session.search(question, max(DEPTH, top_k))
    memories = session.store.memories()
    by_id = {one.id: one for one in memories}
    for hit in ranking.hits[:top_k]:
        parts = "; ".join(
            f"{part.stream} rank {part.rank}, score {part.score:.4f}, gives {part.contribution:.4f}"
            for part in hit.parts
        )
        typer.echo(f"{hit.score:.4f}  {clean(hit.id)}  ({parts})")
        typer.echo(f"    {clean(words.excerpt(by_id[hit.id].text, question))}")
    if not promised:
        typer.echo(gates.explain(ranking, options.gate(name, root, settings, min_score, delta)))
        return
    known = signals.known(memories)
    measured = signals.by_name(question, lang, ranking, known) if ranking.hits else {}
    typer.echo(gate_file.explain(promised, ranking, measured))
    if len(memories) > 2 * promised.memories:
        typer.echo(
            f"the gate was chosen in stores of about {promised.memories} memories and this one holds "
            f"{len(memories)}: what it promises does not hold here"
        )


def _session(opened: LocalPath, memory: Path, observations: Path | None) -> LocalSession:
    from recall_core import fixtures, sources, vault
    from recall_core.reporting.report import clean
    from recall_core.store import SqliteStore

    if observations and not memory.is_dir():
        raise InputError(f"{memory} brings its own memories; --observations is for a folder of pages")
    if memory.is_dir():
        read = vault.read(memory)
        for page, why in read.unreadable:
            typer.echo(f"{clean(page)}: {clean(why)}", err=True)
        return opened.open([*read.pages, *(sources.read_observations(observations) if observations else [])])
    if memory.suffix == ".json":
        return opened.open(list(fixtures.all_memories(fixtures.load(memory))))
    return opened.session(SqliteStore(memory, create=False))
