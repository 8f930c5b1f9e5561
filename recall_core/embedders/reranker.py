"""The reranker: a cross-encoder reads a question and a memory together, and says whether it answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recall_core.embedders import fingerprint_of, onnx
from recall_core.records import ModelError

AT_ONCE = 16
"""Pairs in one batch."""
KEPT = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""What the model is given, and what the tokenizer calls it."""


class Reranker:
    """A cross-encoder run by onnxruntime, of one number a pair. Raises ModelError when it is no such file."""

    def __init__(
        self,
        name: str,
        model_path: Path,
        tokenizer_path: Path,
        *,
        model_sha256: str,
        tokenizer_sha256: str,
        max_tokens: int,
    ) -> None:
        self.name = name
        self._tokenizer = onnx.open_tokenizer(tokenizer_path, max_tokens)
        self._session = onnx.open_session(model_path)
        self.fingerprint = fingerprint_of(
            kind="rerank", model=model_sha256, tokenizer=tokenizer_sha256, max_tokens=max_tokens
        )

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n,) float32, 0 to 1: how well each text answers the query. Longer pairs are cut at the end."""
        found: list[NDArray[np.float32]] = []
        for start in range(0, len(texts), AT_ONCE):
            pairs = [(query, text) for text in texts[start : start + AT_ONCE]]
            encoded = self._tokenizer.encode_batch(pairs)
            longest = max(len(one.ids) for one in encoded)
            inputs = {
                name: np.array([[*getattr(one, kept), *[0] * (longest - len(one.ids))] for one in encoded])
                for name, kept in KEPT.items()
            }
            try:
                (given,) = self._session.run(None, inputs)
            except Exception as error:  # onnxruntime raises its own, unexported classes
                said = f"{self.name}: onnxruntime cannot run it ({error}); pull it again"
                raise ModelError(said) from error
            if given.shape != (len(pairs), 1):
                raise ModelError(f"{self.name}: gives {given.shape}, and a reranker gives one number a pair")
            found.append(1 / (1 + np.exp(-given[:, 0].astype(np.float64))))
        return np.concatenate(found).astype(np.float32) if found else np.zeros(0, dtype=np.float32)
