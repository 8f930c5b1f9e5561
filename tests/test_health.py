"""The health of an embedder: what is measured, of whom, and what is remembered of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, ByHand
from numpy.typing import NDArray

from recall_core import catalogue, health, models
from recall_core.checks import Check
from recall_core.embedders import Embedder
from recall_core.embedders.onnx import OnnxEmbedder

TEXTS, QUERIES, DELTA = ["near by", "a far one"], ["q1"], 0.25


class Batching(OnnxEmbedder):
    """Counts words as tokens; in a batch that holds it, the text `far` moves towards `near`."""

    def __init__(self, moves: bool) -> None:
        self.name = "batching"
        self.dim = 2
        self.max_tokens = 2
        self.moves = moves

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([(1, 0)] * len(texts), dtype=np.float32)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        far = (0.8, 0.6) if self.moves and len(texts) > 1 else (0.6, 0.8)
        return np.array([far if "far" in text else (1, 0) for text in texts], dtype=np.float32)

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array([len(text.split()) for text in texts])


def measured(monkeypatch: pytest.MonkeyPatch, opened: Callable[..., Embedder]) -> dict[str, Check]:
    monkeypatch.setattr(catalogue, "open_embedder", opened)
    return {check.name: check for check in health.measure("batching", ROOT, TEXTS, QUERIES, DELTA)}


def failing(found: dict[str, Check]) -> list[str]:
    return [name for name, check in found.items() if not check.ok]


def test_hash_has_four_properties_and_holds_them() -> None:
    found = health.measure("hash", ROOT, TEXTS, QUERIES, None)
    assert [check.name for check in found] == [
        *("finite", "unit norm", "deterministic", "white space ignored")
    ]
    assert all(check.ok for check in found)


def test_a_model_is_really_batched_for_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    # It ships run one text at a time; only when told to batch does it move.
    found = measured(monkeypatch, lambda *_, batch_invariant=None, **__: Batching(bool(batch_invariant)))
    assert failing(found) == ["batch invariant", "texts fit"]
    assert found["batch invariant"].measured.endswith(f": {0.6 * 0.8 + 0.8 * 0.6:.6f}")
    # From 1 - 0.6 to 1 - 0.8, which is less than the 0.25 of the gate.
    said = "margins move by up to 0.2000, delta is 0.25"
    assert found["margins hold in a batch"].measured == said
    assert "1 of 2 texts are longer than 2 tokens (longest: 3)" in found["texts fit"].measured


def test_one_thread_is_held_against_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch, lambda *_, threads=None, **__: Batching(moves=threads == 1))
    assert failing(found) == ["same on one thread", "texts fit"]


def test_the_slow_checks_take_a_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CHECKED_TEXTS", 3)
    found = health.measure("hash", ROOT, [f"text {i}" for i in range(9)], ["?"], None)
    assert found[0].measured == "3 vectors of dimension 1024"
    assert health._spread([f"text {i}" for i in range(9)]) == ["text 0", "text 4", "text 8"]
    assert health._spread(["one"]) == ["one"]


@pytest.mark.model
def test_a_real_model_is_sound() -> None:
    name = "all-MiniLM-L6-v2-int8"
    entry = models.load_registry(ROOT / catalogue.REGISTRY)[name]
    if any(check.state == "missing" for check in models.verify(entry, ROOT / "models")):
        pytest.skip(f"models/{name} is not there; fetch it with `make models`")
    found = health.measure(name, ROOT, TEXTS, QUERIES, DELTA)
    assert [check.name for check in found] == [
        *("finite", "unit norm", "deterministic", "white space ignored"),
        *("batch invariant", "margins hold in a batch", "same on one thread", "texts fit"),
    ]
    assert all(check.ok for check in found)


class Counting:
    """Stands in for `measure`: counts its calls, and finds what it is told to find."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ok: bool | None) -> None:
        self.calls = 0
        self.found = [Check("unit norm", ok, "furthest from 1 by 3.0e-08"), Check("band", None, "чай")]
        monkeypatch.setattr(health, "measure", self)

    def __call__(self, *_: object) -> list[Check]:
        self.calls += 1
        return self.found


TOY = ByHand({"a": (1, 0)})


def test_what_held_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch, ok=True)
    first = health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)
    (kept,) = (tmp_path / health.REMEMBERED).iterdir()
    held = json.loads(kept.read_text())
    kept.write_text(json.dumps(held | {"measured": "2026-01-02"}))
    again, day = health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)
    assert (counting.calls, again, day.isoformat()) == (1, first[0], "2026-01-02")


def test_what_did_not_hold_is_measured_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch, ok=False)
    for _ in range(2):
        assert health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)[0] == counting.found
    assert counting.calls == 2


@pytest.mark.parametrize(
    ("embedder", "texts", "queries", "delta"),
    [
        (ByHand({"a": (1, 0)}, name="another"), TEXTS, QUERIES, DELTA),
        (TOY, TEXTS[::-1], QUERIES, DELTA),
        (TOY, TEXTS, ["q2"], DELTA),
        (TOY, TEXTS, QUERIES, None),
    ],
)
def test_anything_new_is_measured(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    embedder: ByHand,
    texts: list[str],
    queries: list[str],
    delta: float | None,
) -> None:
    counting = Counting(monkeypatch, ok=True)
    health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)
    health.measure_once(embedder, tmp_path, texts, queries, delta)
    assert counting.calls == 2


def test_a_place_that_cannot_be_written_costs_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(monkeypatch, ok=True)
    (tmp_path / ".cache").mkdir()
    (tmp_path / health.REMEMBERED).write_text("a file where the folder should be")
    assert health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)[0] == counting.found


def test_another_onnxruntime_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch, ok=True)
    health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)
    monkeypatch.setattr(health.onnxruntime, "__version__", "0.0")
    health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)
    assert counting.calls == 2


def test_another_processor_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch, ok=True)
    for found in (["X86_V3"], ["X86_V3", "AVX512_SPR"]):
        simd = {"SIMD Extensions": {"baseline": ["X86_V2"], "found": found}}
        monkeypatch.setattr(health.np, "show_config", lambda simd=simd, **_: simd)
        assert health.machine().endswith(f", {found[-1]}")
        health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)
    assert counting.calls == 2


@pytest.mark.parametrize(
    "content",
    [
        *("", "{}", "[1]", "[" * 100_000),
        '{"checks": [], "measured": "2026-01-02"}',
        '{"checks": [{"name": 1, "ok": true, "measured": "m"}], "measured": "2026-01-02"}',
        '{"checks": [{"name": "n", "ok": "no", "measured": "m"}], "measured": "2026-01-02"}',
        '{"checks": [{"name": "n", "ok": false, "measured": "m"}], "measured": "2026-01-02"}',
        '{"checks": [{"name": "n", "ok": true, "measured": "m"}], "measured": "9999-12-31"}',
    ],
    ids=range(9),
)
def test_a_broken_memory_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    counting = Counting(monkeypatch, ok=True)
    health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)
    (kept,) = (tmp_path / health.REMEMBERED).iterdir()
    kept.write_text(content)
    assert health.measure_once(TOY, tmp_path, TEXTS, QUERIES, DELTA)[0] == counting.found
    assert counting.calls == 2
    assert [path.name for path in (tmp_path / health.REMEMBERED).iterdir()] == [kept.name]
