"""The ONNX embedder: a transformer run by onnxruntime, its tokens pooled into one unit row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

from recall_core.embedders import fingerprint_of
from recall_core.records import ModelError

TOKENIZE_AT_ONCE = 512
"""Texts given to the tokenizer in one call: bounds how many encodings are held."""


class OnnxEmbedder:
    """Texts are cut at `max_tokens`, run in batches sorted by length, and pooled over their own tokens.

    A model whose answer for a text depends on what shares its batch (dynamic quantisation does that) is
    run one text at a time: `batch_invariant=False`. Memory is bounded by `tokens_a_batch`, counted with
    padding. Raises ModelError when the file is not the model it is said to be.
    """

    kind: Literal["onnx"] = "onnx"

    def __init__(
        self,
        name: str,
        model_path: Path,
        tokenizer_path: Path,
        *,
        model_sha256: str,
        tokenizer_sha256: str,
        dim: int,
        max_tokens: int,
        pooling: Literal["mean", "cls", "none"] = "mean",
        query_prefix: str = "",
        passage_prefix: str = "",
        output: str | None = None,
        batch_invariant: bool = True,
        tokens_a_batch: int = 1024,
        threads: int | None = None,
    ) -> None:
        self.name = name
        self.dim = dim
        self.max_tokens = max_tokens
        self._pooling = pooling
        self._prefixes = {"query": query_prefix, "passage": passage_prefix}
        self._batch_tokens = tokens_a_batch if batch_invariant else 0
        self._tokenizer = open_tokenizer(tokenizer_path, max_tokens)
        self._session = open_session(model_path, threads)
        self._wants_types = "token_type_ids" in {given.name for given in self._session.get_inputs()}
        outputs = [found.name for found in self._session.get_outputs()]
        self._output = output or outputs[0]
        if self._output not in outputs:
            known = ", ".join(outputs)
            raise ModelError(
                f"{model_path}: has no output {output!r}, only {known}; correct the registry entry"
            )
        # The tokenizer's last token, through the model: do they belong together, and is its output a row?
        self._hidden([[self._tokenizer.get_vocab_size() - 1]])
        self.fingerprint = fingerprint_of(
            kind="onnx",
            model=model_sha256,
            tokenizer=tokenizer_sha256,
            pooling=pooling,
            normalise=True,  # every row is scaled to length 1; the word stays, so that no fingerprint moves
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            max_tokens=max_tokens,
            dtype="float32",
            alone=not batch_invariant,
        )

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows."""
        return self._embed("query", texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dim) float32, unit rows."""
        return self._embed("passage", texts)

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """(n,) tokens of each passage with its prefix, before it is cut at `max_tokens`."""
        whole = Tokenizer.from_str(self._tokenizer.to_str())
        whole.no_truncation()
        prefixed = [self._prefixes["passage"] + text.strip() for text in texts]
        return np.array([len(found.ids) for found in whole.encode_batch(prefixed)], dtype=np.int64)

    def _embed(self, side: Literal["query", "passage"], texts: Sequence[str]) -> NDArray[np.float32]:
        prefixed = [self._prefixes[side] + text.strip() for text in texts]
        ids: list[list[int]] = []
        for start in range(0, len(texts), TOKENIZE_AT_ONCE):
            ids += [found.ids for found in self._tokenizer.encode_batch(prefixed[start:][:TOKENIZE_AT_ONCE])]
        rows = np.empty((len(texts), self.dim), dtype=np.float32)
        for batch in _batches([len(row) for row in ids], self._batch_tokens):
            hidden, mask = self._hidden([ids[i] for i in batch])
            rows[batch] = unit_rows(pool(hidden, mask, self._pooling), self.name)
        return rows

    def _hidden(self, ids: list[list[int]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What the model gives for these texts before pooling, and the mask of their tokens."""
        shape = (len(ids), max(len(row) for row in ids))
        tokens = np.zeros(shape, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for i, row in enumerate(ids):
            tokens[i, : len(row)], mask[i, : len(row)] = row, 1
        inputs = {"input_ids": tokens, "attention_mask": mask}
        if self._wants_types:
            inputs["token_type_ids"] = np.zeros(shape, dtype=np.int64)
        try:
            (hidden,) = self._session.run([self._output], inputs)
        except Exception as error:  # onnxruntime raises its own, unexported classes
            why = f"onnxruntime cannot run it ({error}); is tokenizer.json that of another model?"
            raise ModelError(f"{self.name}: {why} correct the registry entry") from error
        wanted = (*shape, self.dim) if self._pooling != "none" else (len(ids), self.dim)
        if (hidden.shape, hidden.dtype) != (wanted, np.float32):
            raise ModelError(
                f"{self.name}: output {self._output!r} has shape {hidden.shape}, {hidden.dtype}; expected "
                f"{wanted}, float32, for pooling {self._pooling!r}; correct the registry entry"
            )
        return hidden, mask


def pool(
    hidden: NDArray[np.float32], mask: NDArray[np.int64], pooling: Literal["mean", "cls", "none"]
) -> NDArray[np.float32]:
    """One row a text. `hidden`: (n, tokens, dim), or (n, dim) for `none`; `mask`: (n, tokens), 1 where a
    token is."""
    if pooling == "none":
        return hidden
    if pooling == "cls":
        return hidden[:, 0]
    weight = mask[:, :, None].astype(np.float32)
    pooled: NDArray[np.float32] = (hidden * weight).sum(axis=1) / np.maximum(weight.sum(axis=1), 1.0)
    return pooled


def unit_rows(rows: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """Rows scaled to length 1. Raises ModelError on a row that has no length or is not finite."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(length).all() or not length.all():
        raise ModelError(
            f"{name}: the model gave a vector that is zero or not finite; verify its files with "
            f"`recall models verify {name}`"
        )
    scaled: NDArray[np.float32] = (rows / length).astype(np.float32)
    return scaled


def _batches(lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Indices grouped by length, longest first; a batch, with its padding, holds at most `budget` tokens."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batch and lengths[batch[0]] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def open_tokenizer(path: Path, max_tokens: int) -> Tokenizer:
    """A tokenizer that cuts and does not pad. Raises ModelError when the file is none."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelError(f"{path}: is not a tokenizer file ({error}); pull the model again") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def open_session(path: Path, threads: int | None = None) -> ort.InferenceSession:
    """A model, ready to run on so many threads. Raises ModelError when the file is none."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or _cores()
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what fails is raised, and told once
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises its own, unexported classes
        raise ModelError(f"{path}: onnxruntime cannot load it ({error}); pull the model again") from error


def _cores() -> int:
    """`RECALL_THREADS`, or every core: of two notebooks run at once neither may take them all."""
    given = os.environ.get("RECALL_THREADS", "")
    if given.isdigit() and int(given):
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
