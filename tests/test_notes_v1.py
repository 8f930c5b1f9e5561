"""The fixture we ship: what it is made of, and that its filler carries weight."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pytest
from numpy.typing import NDArray

from recall_core import fixtures, pipeline
from recall_core.config import PathConfig
from recall_core.embedders import fingerprint_of
from recall_core.lint import lint
from recall_core.paths.local import LocalPath
from recall_core.records import Case, Fixture


class Noise:
    """Each text has a random direction of its own: an embedder that knows nothing."""

    kind = "hash"
    dim = 16

    def __init__(self, seed: int) -> None:
        self.name = f"noise-{seed}"
        self.seed = seed
        self.fingerprint = fingerprint_of(seed=seed)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_passages(texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.array([self._row(text) for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def _row(self, text: str) -> NDArray[np.float64]:
        digest = blake2b(f"{self.seed} {text}".encode(), digest_size=8).digest()
        return np.random.default_rng(int.from_bytes(digest, "little")).standard_normal(self.dim)


def guessing(seed: int) -> LocalPath:
    return LocalPath(f"noise-{seed}", PathConfig(streams=("vector",)), Noise(seed), quiet=True)


def tagged(fixture: Fixture, tag: str) -> list[Case]:
    return [case for case in fixture.cases if tag in case.tags]


def test_27_have_an_answer_and_5_have_none(notes: Fixture):
    assert len(notes.cases) == 32 == 27 + 5
    assert sum(case.answerable for case in notes.cases) == 27


def test_every_case_brings_three_memories_and_all_share_twelve(notes: Fixture):
    assert {len(case.memories) for case in notes.cases} == {3}
    assert len(notes.filler) == 12
    assert len(list(fixtures.all_memories(notes))) == 12 + 32 * 3
    assert {len(fixtures.memories_for(notes, case)) for case in notes.cases} == {3 + 12}
    assert notes.isolation == "per_case"


def test_at_least_11_are_hard_and_all_of_them_have_an_answer(notes: Fixture):
    hard = [case for case in notes.cases if case.hard]
    assert len(hard) >= 11
    assert all(case.answerable for case in hard)


def test_two_mix_a_note_with_a_fact(notes: Fixture):
    mixed = tagged(notes, "mixed")
    assert len(mixed) == 2
    for case in mixed:
        assert {memory.kind for memory in case.memories} == {"note", "fact"}


def test_four_in_five_are_russian(notes: Fixture):
    langs = [case.lang for case in notes.cases]
    assert set(langs) == {"ru", "en"}
    assert 3 <= langs.count("ru") / langs.count("en") <= 5


def test_about_nine_have_a_plausible_second(notes: Fixture):
    assert 8 <= len(tagged(notes, "plausible_second")) <= 10
    assert all(case.answerable for case in tagged(notes, "plausible_second"))


def test_it_is_about_a_homelab_and_preferences(notes: Fixture):
    homelab, preference = len(tagged(notes, "homelab")), len(tagged(notes, "preference"))
    assert homelab + preference == 32
    assert min(homelab, preference) >= 12


def test_every_memory_says_when_and_in_which_language(notes: Fixture):
    unsaid = [memory.id for memory in fixtures.all_memories(notes) if not (memory.ts and memory.lang)]
    assert unsaid == []


def test_the_lint_finds_no_error(notes: Fixture):
    assert [finding for finding in lint(notes) if finding.level == "error"] == []


@pytest.mark.parametrize("seed", range(3))
def test_without_filler_recall_at_3_is_full_whatever_the_embedder(notes: Fixture, seed: int):
    # Three memories, three places: nothing can be missed.
    bare = notes.model_copy(update={"filler": ()})
    rows = pipeline.run_cases(bare, guessing(seed), top_k=3, quiet=True)
    assert (rows["rank"] <= 3).sum() == 27


@pytest.mark.parametrize("seed", range(3))
def test_with_filler_an_embedder_that_knows_nothing_finds_little(notes: Fixture, seed: int):
    # A memory is in the first 3 of 15 with probability 1/5, two cases have two chances: about 25/5 + 2 *
    # (1 - 12/15 * 11/14) = 5.7 of 27, deviation 2.1; 13 is over three deviations away.
    rows = pipeline.run_cases(notes, guessing(seed), top_k=3, quiet=True)
    assert (rows["rank"] <= 3).sum() <= 13
