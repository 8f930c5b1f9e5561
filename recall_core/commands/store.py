"""`recall store`: build one, ask it, re-embed it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recall_core import config
from recall_core.commands.ask import ask
from recall_core.commands.options import Embedder

app = typer.Typer(help="Stores: build one, ask it, re-embed it.", no_args_is_help=True)


@app.command("build")
def store_build(
    path: Annotated[Path, typer.Argument(help="The store's file.")],
    fixture: Annotated[Path, typer.Option(help="Take all memories of this fixture.")],
    embedder: Embedder = "hash",
) -> None:
    """Make a store from the memories of a fixture, embedded and ready to ask."""
    from recall_core import catalogue, fixtures
    from recall_core.paths.local import embed
    from recall_core.store import SqliteStore

    root = config.find_root()
    memories = list(fixtures.all_memories(fixtures.load(fixture)))
    opened = catalogue.open_embedder(embedder, root)
    store = SqliteStore(path)
    store.add(memories)
    typer.echo(f"{path}: {len(memories)} memories, {embed(store, opened)} embedded with {embedder}")


@app.command("reembed")
def store_reembed(
    path: Annotated[Path, typer.Argument(help="The store's file.")], embedder: Embedder = "hash"
) -> None:
    """Give every memory a vector of another embedder. Can be stopped and run again."""
    from recall_core import catalogue
    from recall_core.paths.local import embed
    from recall_core.store import SqliteStore

    opened = catalogue.open_embedder(embedder, config.find_root())
    typer.echo(f"{path}: {embed(SqliteStore(path, create=False), opened)} embedded with {embedder}")


app.command("search")(ask)
