"""The health of an embedder: every check on a fixture's own texts, remembered while nothing changes."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Annotated

import numpy as np
import onnxruntime
from pydantic import BaseModel, Field

from recall_core import catalogue, checks
from recall_core.checks import Check
from recall_core.embedders import Embedder
from recall_core.writing import write_whole

CHECKED_TEXTS = 96
"""Texts and questions the slow checks embed, spread over the fixture."""
REMEMBERED = Path(".cache") / "health"


def measure(
    name: str, root: Path, texts: Sequence[str], queries: Sequence[str], delta: float | None
) -> list[Check]:
    """Every check of the embedder of that name, on uncached vectors; the slow ones take a spread of texts."""
    from recall_core.embedders.onnx import OnnxEmbedder

    embedder = catalogue.open_embedder(name, root)
    some = _spread(texts)
    found = [
        *checks.vectors(embedder, some),
        checks.same_answers(embedder.embed_passages, some[0], f"  {some[0]}\n"),
    ]
    if isinstance(embedder, OnnxEmbedder):
        batched = catalogue.open_embedder(name, root, batch_invariant=True)
        found += checks.batches(batched, some, _spread(queries), delta)
        one, many = (catalogue.open_embedder(name, root, threads=count) for count in (1, 2))
        found.append(checks.threads(one, many, some[:: max(1, len(some) // 24)]))
        found.append(checks.truncation(embedder.count_tokens(texts), embedder.max_tokens))
    return found


def measure_once(
    embedder: Embedder, root: Path, texts: Sequence[str], queries: Sequence[str], delta: float | None
) -> tuple[list[Check], date]:
    """As `measure`, and the day it was measured.

    What held on an earlier day is not measured again while the embedder's fingerprint, the texts, the gate's
    delta, onnxruntime and the processor are the same. What did not hold is.
    """
    asked = [embedder.fingerprint, onnxruntime.__version__, machine()]
    key = hashlib.sha256(json.dumps([*asked, delta, list(texts), list(queries)]).encode()).hexdigest()
    path = root / REMEMBERED / f"{key}.json"
    today = date.today()
    with suppress(OSError, ValueError, RecursionError):
        held = _Remembered.model_validate_json(path.read_bytes(), strict=True)
        if held.measured <= today and all(check.ok is not False for check in held.checks):
            return held.checks, held.measured
    found = measure(embedder.name, root, texts, queries, delta)
    if all(check.ok is not False for check in found):
        with suppress(OSError):  # it is measured again then
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, _Remembered(measured=today, checks=found).model_dump_json())
    return found, today


class _Remembered(BaseModel):
    measured: date
    checks: Annotated[list[Check], Field(min_length=1)]


def machine() -> str:
    """What the last bits of a model's vectors depend on beside its files and libraries: the system, and the
    widest vector instructions found."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    widest = [*simd.get("baseline", []), *simd.get("found", [])][-1:]
    return ", ".join([platform.platform(), *widest])


def _spread(texts: Sequence[str]) -> list[str]:
    places = np.unique(np.linspace(0, len(texts) - 1, min(CHECKED_TEXTS, len(texts))).astype(int))
    return [texts[place] for place in places]
