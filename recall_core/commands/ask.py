"""`recall ask`: one question of a wiki, and why each hit is where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recall_core import config
from recall_core.commands import options
from recall_core.commands.options import Embedder


def ask(
    folder: Annotated[Path, typer.Argument(help="A folder of Markdown pages.")],
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    observations: Annotated[Path | None, typer.Option(help="Raw observations, JSONL.")] = None,
    embedder: Embedder = "hash",
    top_k: Annotated[int, typer.Option(min=1, help="How many to show.")] = 5,
) -> None:
    """Ask a wiki one question: the fused hits, what each stream gave them, and the words that matched."""
    from recall_core import catalogue, pipeline, vault, wiki, words
    from recall_core.reporting.report import clean
    from recall_core.store import SqliteStore

    options.refuse_wordless(question)
    root = config.find_root()
    read = vault.read(folder)
    for page, why in read.unreadable:
        typer.echo(f"{clean(page)}: {clean(why)}", err=True)
    memories = [*read.pages, *(vault.read_observations(observations) if observations else [])]
    opened = catalogue.open_cached(embedder, root)
    store = SqliteStore()
    store.add(memories)
    pipeline.reembed(store, opened)
    asked, how = wiki.Wiki(store, opened), wiki.options_of(config.load(root / config.NAME).pages)
    if mute := wiki.vectors_are_mute(asked, how):
        typer.echo(mute, err=True)
    answer = asked.ask(question, how)
    if not answer.hits:
        typer.echo("nothing was found")
    elif answer.fell_back:
        typer.echo("no page was found by any stream; these are raw observations")
    by_id = {memory.id: memory for memory in memories}
    for hit in answer.hits[:top_k]:
        typer.echo(clean(wiki.explain(answer, by_id[hit.id])))
        typer.echo(f"    {clean(words.excerpt(by_id[hit.id].text, question))}")
