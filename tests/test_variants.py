"""Variants of an embedder: two models mixed on purpose."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ByHand

from recall_core.embedders.variants import Stale
from recall_core.records import InputError

OLD = ByHand({"a": (1, 0), "?": (0.6, 0.8)}, name="old")
NEW = ByHand({"a": (0, 1), "?": (0.8, 0.6)}, name="new")


def test_the_old_model_wrote_and_the_new_one_asks() -> None:
    stale = Stale(written_by=OLD, asked_by=NEW)
    assert np.array_equal(stale.embed_passages(["a"]), OLD.embed_passages(["a"]))
    assert np.array_equal(stale.embed_queries(["?"]), NEW.embed_queries(["?"]))
    assert (stale.name, stale.kind, stale.dim) == ("written by old, asked by new", "hash", 2)


def test_a_mixture_has_a_fingerprint_of_its_own() -> None:
    made = [Stale(OLD, NEW), Stale(NEW, OLD), Stale(OLD, OLD)]
    prints = {OLD.fingerprint, NEW.fingerprint, *(stale.fingerprint for stale in made)}
    assert len(prints) == 5
    assert Stale(OLD, NEW).fingerprint == made[0].fingerprint


def test_two_dimensions_cannot_be_mixed() -> None:
    wide = ByHand({"a": (1, 0, 0)}, name="wide")
    with pytest.raises(InputError, match=r"^old has dimension 2 and wide has 3; "):
        Stale(OLD, wide)
