"""The catalogue: an embedder, or a path, by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recall_core import config, models
from recall_core.embedders import Embedder
from recall_core.embedders.cache import CachedEmbedder
from recall_core.embedders.hashing import HashEmbedder
from recall_core.gates import Gate
from recall_core.paths.local import LocalPath
from recall_core.records import ModelError, UnknownEmbedderError, UnknownPathError

if TYPE_CHECKING:
    from recall_core.embedders.reranker import Reranker

REGISTRY = Path("models") / "registry.toml"
CACHE = Path(".cache") / "vectors.sqlite"


def names(root: Path) -> list[str]:
    """Every embedder that can be opened here."""
    registry = models.load_registry(root / REGISTRY)
    return ["hash", *(name for name, entry in registry.items() if entry.task == "embed")]


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
    if name not in names(root):
        raise UnknownEmbedderError(f"no embedder is called {name!r}; known: {', '.join(names(root))}")
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


def open_path(
    name: str, root: Path, settings: config.Config | None = None, *, quiet: bool | None = None
) -> LocalPath:
    """The path of that name: of an embedder, vectors alone; or `keyword`, `hybrid`, or one of recall.toml.

    Raises UnknownPathError, or ModelError when its embedder's files are not there.
    """
    paths = options_by_name(settings)
    if name in names(root):
        options = config.PathConfig(streams=("vector",), embedder=name, centre=False)
    elif name in paths:
        options = paths[name]
    else:
        raise UnknownPathError(
            f"no path is called {name!r}; known: {', '.join([*names(root), *paths])}. Add it to "
            f"{config.NAME} as [paths.{name}]"
        )
    embedder = open_cached(options.embedder, root) if "vector" in options.streams else None
    reranker = open_reranker(options.rerank, root) if options.rerank else None
    return LocalPath(name, options, embedder, quiet, reranker=reranker)


def open_reranker(name: str, root: Path) -> Reranker:
    """The reranker of that name. Raises ModelError when its files are not there, or it is an embedder."""
    from recall_core.embedders.reranker import Reranker

    entry = models.entry_named(models.load_registry(root / REGISTRY), name)
    if entry.task != "rerank":
        raise ModelError(f"{name} is an embedder; name a reranker under rerank, or leave it out")
    folder = models.locate(entry, root / "models")
    hashes = models.hashes(entry, root / "models")
    return Reranker(
        name,
        folder / "model.onnx",
        folder / "tokenizer.json",
        model_sha256=hashes["model.onnx"],
        tokenizer_sha256=hashes["tokenizer.json"],
        max_tokens=entry.max_tokens,
    )


def options_by_name(settings: config.Config | None) -> dict[str, config.PathConfig]:
    """The paths that are no embedder's: `keyword`, `hybrid`, and those of recall.toml, which come first."""
    built_in = {"keyword": config.PathConfig(streams=("keyword",)), "hybrid": config.PathConfig()}
    return built_in | dict(settings.paths if settings else {})


def models_of(name: str, root: Path, settings: config.Config) -> list[str]:
    """The models that a path needs: its embedder and its reranker."""
    if name in names(root):
        return [name]
    options = options_by_name(settings).get(name, config.PathConfig(streams=("keyword",)))
    return [*([options.embedder] if "vector" in options.streams else []), *filter(None, [options.rerank])]


def needed(settings: config.Config, root: Path) -> list[str]:
    """The models that the paths of recall.toml need, each once."""
    pages = settings.pages.paths if settings.pages else ()
    chosen = [name for choice in settings.choice for name in (choice.path, choice.other) if name]
    used = [one for name in (*settings.measure, *pages, *chosen) for one in models_of(name, root, settings)]
    return [name for name in dict.fromkeys(used) if name != "hash"]


def gate_of(name: str, root: Path, settings: config.Config) -> Gate:
    """The gate a path ships with.

    An embedder's is `gate` of recall.toml where it has none of its own. Scores of other paths are on another
    scale: without a gate of their own all that they find is spoken.
    """
    shipped = settings.gates.get(name) or (settings.gate if name in names(root) else None)
    return Gate(shipped.min_score, shipped.delta) if shipped else Gate(0.0)


def open_cached(name: str, root: Path) -> Embedder:
    """The embedder of that name, remembering what it embedded. Hashing is faster than looking up."""
    embedder = open_embedder(name, root)
    return embedder if name == "hash" else CachedEmbedder(embedder, root / CACHE)
