"""`recall store`: build one, ask it, re-embed it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recall_core import config
from recall_core.commands import options
from recall_core.commands.options import Delta, Embedder, MinScore
from recall_core.records import InputError

app = typer.Typer(help="Stores: build one, ask it, re-embed it.", no_args_is_help=True)


@app.command("build")
def store_build(
    path: Annotated[Path, typer.Argument(help="The store's file.")],
    fixture: Annotated[Path, typer.Option(help="Take all memories of this fixture.")],
    embedder: Embedder = "hash",
) -> None:
    """Make a store from the memories of a fixture, embedded and ready to ask."""
    from recall_core import catalogue, fixtures, pipeline
    from recall_core.store import SqliteStore

    root = config.find_root()
    memories = list(fixtures.all_memories(fixtures.load(fixture)))
    opened = catalogue.open_embedder(embedder, root)
    store = SqliteStore(path)
    store.add(memories)
    typer.echo(
        f"{path}: {len(memories)} memories, {pipeline.reembed(store, opened)} embedded with {embedder}"
    )


@app.command("reembed")
def store_reembed(
    path: Annotated[Path, typer.Argument(help="The store's file.")], embedder: Embedder = "hash"
) -> None:
    """Give every memory a vector of another embedder. Can be stopped and run again."""
    from recall_core import catalogue, pipeline
    from recall_core.store import SqliteStore

    opened = catalogue.open_embedder(embedder, config.find_root())
    typer.echo(
        f"{path}: {pipeline.reembed(SqliteStore(path, create=False), opened)} embedded with {embedder}"
    )


@app.command("search")
def store_search(
    path: Annotated[Path, typer.Argument(help="The store's file.")],
    query: Annotated[str, typer.Argument(help="A question.")],
    embedder: Annotated[str | None, typer.Option(help="Default: that of the gate file, or hash.")] = None,
    min_score: MinScore = None,
    delta: Delta = None,
    gate: Annotated[Path | None, typer.Option(help="A gate.json, as `recall gate choose` saves it.")] = None,
    lang: Annotated[str, typer.Option(help="The question's language, for gates that go by words.")] = "en",
    top_k: Annotated[int, typer.Option(min=1, help="How many to show.")] = 3,
) -> None:
    """Ask a store one question: what comes out, and whether the gate would speak it."""
    from recall_core import catalogue, gates, signals, streams
    from recall_core.choosing import gate_file
    from recall_core.reporting.report import clean
    from recall_core.store import SqliteStore

    options.refuse_wordless(query)
    if gate and (min_score, delta) != (None, None):
        raise InputError("--gate holds thresholds of its own; give it without --min-score and --delta")
    root = config.find_root()
    promised = gate_file.load(gate) if gate else None
    name = embedder or (promised.embedder if promised else "hash")
    chosen = options.gate(config.load(root / config.NAME), name, min_score, delta)
    store = SqliteStore(path, create=False)
    opened = catalogue.open_embedder(name, root)
    if promised:
        promised.check(opened.fingerprint)
    ranking = streams.vector(store, opened.embed_queries([query])[0], opened.fingerprint)
    memories = store.memories()
    texts = {memory.id: memory.text for memory in memories}
    for hit in ranking.top(top_k).hits:
        typer.echo(f"{hit.score:.4f}  {clean(hit.id):<20} {clean(texts[hit.id])}")
    if not promised:
        typer.echo(gates.explain(ranking, chosen))
        return
    known = signals.known(memories, store.vectors(opened.fingerprint))
    measured = signals.by_name(query, lang, ranking, known) if ranking.hits else {}
    typer.echo(gate_file.explain(promised, ranking, measured))
    if len(memories) > 2 * promised.memories:
        typer.echo(
            f"the gate was chosen in stores of about {promised.memories} memories and this one holds "
            f"{len(memories)}: what it promises does not hold here"
        )
