"""The catalogue: an embedder by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recall_core import models
from recall_core.embedders import Embedder
from recall_core.embedders.cache import CachedEmbedder
from recall_core.embedders.hashing import HashEmbedder
from recall_core.records import UnknownEmbedderError

REGISTRY = Path("models") / "registry.toml"
CACHE = Path(".cache") / "vectors.sqlite"


def names(root: Path) -> list[str]:
    """Every embedder that can be opened here."""
    return ["hash", *models.load_registry(root / REGISTRY)]


def pull_missing(wanted: Sequence[str], root: Path, *, quiet: bool | None = None) -> None:
    """Fetch the files of these embedders that are not here yet."""
    registry = models.load_registry(root / REGISTRY)
    for name in wanted:
        if name != "hash":
            models.pull(models.entry_named(registry, name), root / "models", quiet=quiet)


def open_embedder(
    name: str,
    root: Path,
    *,
    prefixes: bool = True,
    threads: int | None = None,
    batch_invariant: bool | None = None,
) -> Embedder:
    """The embedder of that name.

    For controls: without its `prefixes`, with other `threads`, or batched whatever the registry says.
    Raises UnknownEmbedderError, or ModelError when its files are not there.
    """
    if name == "hash":
        return HashEmbedder()
    registry = models.load_registry(root / REGISTRY)
    if name not in registry:
        raise UnknownEmbedderError(f"no embedder is called {name!r}; known: {', '.join(['hash', *registry])}")
    from recall_core.embedders.onnx import OnnxEmbedder

    entry = registry[name]
    folder = models.locate(entry, root / "models")
    hashes = models.hashes(entry, root / "models")
    return OnnxEmbedder(
        name if prefixes else f"{name}, no prefixes",
        folder / "model.onnx",
        folder / "tokenizer.json",
        model_sha256=hashes["model.onnx"],
        tokenizer_sha256=hashes["tokenizer.json"],
        dim=entry.dim,
        max_tokens=entry.max_tokens,
        pooling=entry.pooling,
        query_prefix=entry.query_prefix if prefixes else "",
        passage_prefix=entry.passage_prefix if prefixes else "",
        output=entry.output,
        batch_invariant=entry.batch_invariant if batch_invariant is None else batch_invariant,
        threads=threads,
    )


def open_cached(name: str, root: Path) -> Embedder:
    """The embedder of that name, remembering what it embedded. Hashing is faster than looking up."""
    embedder = open_embedder(name, root)
    return embedder if name == "hash" else CachedEmbedder(embedder, root / CACHE)
