"""What was embedded once is not embedded again, and is the same to the bit; also through a whole run."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, ByHand, built, note, raw_case
from numpy.typing import NDArray

from recall_core import catalogue, models, pipeline
from recall_core.config import PathConfig
from recall_core.embedders import Embedder, fingerprint_of
from recall_core.embedders.cache import LOOK_UP_AT_ONCE, CachedEmbedder
from recall_core.embedders.hashing import HashEmbedder
from recall_core.paths.local import LocalPath
from recall_core.records import Fixture, StoreError

TEXTS = ["red kite", "", "чайник 🙂", " red kite", "red kite\n", "word " * 500]


class Watched(HashEmbedder):
    """Remembers each text it was really asked for, by side. A question is embedded turned around."""

    def __init__(self, dim: int = 16, name: str = "watched") -> None:
        super().__init__(dim)
        self.name = name
        self.fingerprint = fingerprint_of(name=name, dim=dim)
        self.asked: list[tuple[str, str]] = []

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += [("query", text) for text in texts]
        return -super().embed_passages(texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += [("passage", text) for text in texts]
        return super().embed_passages(texts)


class Refusing(HashEmbedder):
    """Whatever it is asked must have been in the cache."""

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError(f"{len(texts)} texts were not in the cache")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "on the way" / "vectors.sqlite"


def to_the_bit(one: NDArray[np.float32], two: NDArray[np.float32]) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())


def test_a_second_call_computes_nothing(path: Path) -> None:
    cached = CachedEmbedder(Watched(), path)
    first = cached.embed_passages(TEXTS)
    assert cached.computed == len(TEXTS)
    assert to_the_bit(cached.embed_passages(TEXTS), first)
    assert cached.computed == len(TEXTS)
    assert len(cached.inner.asked) == len(TEXTS)


def test_another_opening_computes_nothing(path: Path) -> None:
    CachedEmbedder(Watched(), path).embed_passages(TEXTS)
    again = CachedEmbedder(Watched(), path)
    again.embed_passages(TEXTS)
    assert (again.computed, again.inner.asked) == (0, [])


@pytest.mark.parametrize("side", ["embed_queries", "embed_passages"])
def test_rows_are_those_of_the_embedder_to_the_bit(path: Path, side: str) -> None:
    plain = getattr(Watched(), side)(TEXTS)
    assert to_the_bit(getattr(CachedEmbedder(Watched(), path), side)(TEXTS), plain)
    assert to_the_bit(getattr(CachedEmbedder(Watched(), path), side)(TEXTS), plain)


def test_only_what_is_new_is_computed(path: Path) -> None:
    cached = CachedEmbedder(Watched(), path)
    cached.embed_passages(["a", "b"])
    cached.embed_passages(["c", "b", "d", "a"])
    assert [text for _, text in cached.inner.asked] == ["a", "b", "c", "d"]
    assert cached.computed == 4


def test_order_and_duplicates_are_kept(path: Path) -> None:
    cached = CachedEmbedder(Watched(), path)
    cached.embed_passages(["b"])
    texts = ["c", "b", "a", "c", "b", "b"]
    assert to_the_bit(cached.embed_passages(texts), Watched().embed_passages(texts))
    assert cached.computed == 3


def test_a_question_and_a_passage_of_one_text_are_two_rows(path: Path) -> None:
    cached = CachedEmbedder(Watched(), path)
    passage, question = cached.embed_passages(["red kite"]), cached.embed_queries(["red kite"])
    assert np.array_equal(question, -passage)
    assert cached.inner.asked == [("passage", "red kite"), ("query", "red kite")]


def test_another_fingerprint_has_rows_of_its_own(path: Path) -> None:
    one, two = CachedEmbedder(Watched(16, "one"), path), CachedEmbedder(Watched(32, "two"), path)
    one.embed_passages(TEXTS)
    assert two.embed_passages(TEXTS).shape == (len(TEXTS), 32)
    assert two.computed == len(TEXTS)
    assert to_the_bit(one.embed_passages(TEXTS), Watched(16).embed_passages(TEXTS))


def test_it_passes_for_the_embedder_inside(path: Path) -> None:
    inner = Watched()
    cached = CachedEmbedder(inner, path)
    for about in ("name", "kind", "dim", "fingerprint"):
        assert getattr(cached, about) == getattr(inner, about)


def test_no_texts_give_no_rows(path: Path) -> None:
    rows = CachedEmbedder(Watched(), path).embed_queries([])
    assert (rows.shape, rows.dtype) == ((0, 16), np.float32)


def test_many_texts_are_looked_up_in_parts(path: Path) -> None:
    texts = [f"note {i}" for i in range(2000)]
    assert len(texts) > 3 * LOOK_UP_AT_ONCE
    CachedEmbedder(Watched(), path).embed_passages(texts)
    again = CachedEmbedder(Watched(), path)
    again._db.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)  # as old builds have it
    assert to_the_bit(again.embed_passages(texts[::-1]), Watched().embed_passages(texts[::-1]))
    assert again.computed == 0


def test_what_could_not_be_embedded_is_not_remembered(path: Path) -> None:
    cached = CachedEmbedder(ByHand({"a": (1, 0)}), path)
    with pytest.raises(KeyError):
        cached.embed_passages(["a", "unknown"])
    assert cached.computed == 0
    assert cached.embed_passages(["a"]).tolist() == [[1, 0]]
    assert cached.computed == 1


# The file

WRITER = """
import os, sys
from pathlib import Path
from recall_core.embedders.cache import CachedEmbedder
from recall_core.embedders.hashing import HashEmbedder

path, who = Path(sys.argv[1]), sys.argv[2]
embedder = HashEmbedder(16)
print("ready", flush=True)
sys.stdin.readline()
cached = CachedEmbedder(embedder, path)
if who == "killed":
    cached._db.set_trace_callback(lambda sql: sql == "COMMIT" and os.kill(os.getpid(), 9))
for i in range(60):
    cached.embed_passages([f"both {i}", f"{who} {i}"])
"""


def writer(path: Path, who: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), who]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_two_processes_write_one_file_at_once(path: Path) -> None:
    writers = [writer(path, who) for who in ("one", "two")]
    for process in writers:
        assert process.stdout.readline() == "ready\n"
    for process in writers:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in writers:
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "")
    texts = [f"{who} {i}" for who in ("both", "one", "two") for i in range(60)]
    assert to_the_bit(
        CachedEmbedder(Refusing(16), path).embed_passages(texts), HashEmbedder(16).embed_passages(texts)
    )


def test_a_file_another_process_is_writing_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE something (x)")
    other.execute("BEGIN IMMEDIATE")
    done = Timer(0.2, other.execute, ["COMMIT"])
    done.start()
    CachedEmbedder(Watched(), path).embed_passages(["a"])
    assert not other.in_transaction
    done.join()


def test_a_writer_killed_before_it_is_done_leaves_the_file_usable(path: Path) -> None:
    CachedEmbedder(HashEmbedder(16), path).embed_passages(["before"])
    process = writer(path, "killed")
    process.communicate("go\n", timeout=60)
    assert process.returncode == -signal.SIGKILL
    cached = CachedEmbedder(HashEmbedder(16), path)
    cached.embed_passages(["before", "both 0", "killed 0"])
    assert cached.computed == 2  # nothing of a write that was not done, and all that was there before
    CachedEmbedder(Refusing(16), path).embed_passages(["before", "both 0", "killed 0"])


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    path.write_bytes(b"these are no vectors " * 100)
    with pytest.raises(StoreError, match=r"vectors\.sqlite: .* cannot be used \(file is not a database\)"):
        CachedEmbedder(Watched(), path)
    assert path.read_bytes() == b"these are no vectors " * 100


def test_a_database_of_something_else_is_refused_when_used(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE vectors (colour TEXT)")
    cached = CachedEmbedder(Watched(), path)
    with pytest.raises(
        StoreError, match=r"vectors\.sqlite: the vector cache cannot be used \(no such column"
    ):
        cached.embed_passages(["a"])


def test_a_write_that_fails_is_told_of_and_leaves_nothing_open(path: Path) -> None:
    cached = CachedEmbedder(Watched(), path)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON vectors BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(StoreError, match=r"cannot be used \(full\)"):
        cached.embed_passages(["a"])
    with sqlite3.connect(path) as other:
        other.execute("DROP TRIGGER full")
    cached.embed_passages(["a"])
    CachedEmbedder(Watched(), path).embed_passages(["b"])


@pytest.mark.parametrize("blocked", ["a folder", "below a file"])
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path, blocked: str) -> None:
    (tmp_path / "file").write_text("here first")
    path = {"a folder": tmp_path, "below a file": tmp_path / "file" / "vectors.sqlite"}[blocked]
    with pytest.raises(StoreError, match="the vector cache cannot be used"):
        CachedEmbedder(Watched(), path)


# Through a whole run

SLOW = 0.002


class Slow(Watched):
    """Takes two milliseconds for a call with questions."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        time.sleep(SLOW)
        return super().embed_passages(texts)


class Deaf(HashEmbedder):
    """Cannot embed one of the questions, alone or among others."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if "query c2" in texts:
            raise OSError("no ear")
        return super().embed_queries(texts)


def asking(cases: int, **more: Any) -> Fixture:
    """Each case brings its answer; two memories are in every store."""
    filler = [note("f1", "query of a kite").model_dump(), note("f2", "text of nothing").model_dump()]
    return built(*(raw_case(f"c{i}") for i in range(cases)), filler=filler, **more)


def asked(fixture: Fixture, embedder: Embedder, *streams: str) -> pd.DataFrame:
    options = PathConfig(streams=streams or ("vector",))
    return pipeline.run_cases(fixture, LocalPath("p", options, embedder), quiet=True)


def without_times(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.drop(columns=["embed_ms", "search_ms"])


@pytest.mark.parametrize(
    ("cases", "probes"),
    # Every ceil(n / 40)th: 40 of 40, every second of 41, every third of 100.
    [(1, 1), (40, 40), (41, 21), (100, 34)],
)
def test_a_second_run_computes_nothing_and_still_times_the_model(path: Path, cases: int, probes: int) -> None:
    fixture = asking(cases)
    first = CachedEmbedder(Slow(), path)
    asked(fixture, first)
    assert first.computed == cases + (cases + 2)  # questions, then memories with the two of the filler
    second = CachedEmbedder(Slow(), path)
    rows = asked(fixture, second)
    assert second.computed == 0
    timed = rows["embed_ms"].dropna()
    assert len(timed) == probes <= pipeline.PROBES
    assert timed.index.tolist() == list(range(0, cases, -(-cases // pipeline.PROBES)))
    assert timed.min() > 0.9 * 1e3 * SLOW
    assert rows["search_ms"].notna().all()


def test_a_question_that_cannot_be_embedded_is_one_failed_case(path: Path) -> None:
    fixture = asking(5)
    whole = asked(fixture, HashEmbedder())
    for embedder in (Deaf(), CachedEmbedder(Deaf(), path)):
        rows = asked(fixture, embedder)
        assert rows["case_id"].tolist() == [f"c{i}" for i in range(5)]
        assert rows["error"].fillna("").tolist() == ["", "", "OSError: no ear", "", ""]
        others = rows["case_id"] != "c2"
        told = [without_times(found[others]).drop(columns="error") for found in (rows, whole)]
        pd.testing.assert_frame_equal(*told)
        assert rows["embed_ms"].notna().tolist() == others.tolist()


@pytest.mark.parametrize("streams", [("vector",), ("keyword", "vector")])
@pytest.mark.parametrize("isolation", ["per_case", "shared"])
def test_a_cache_changes_no_result(path: Path, streams: tuple[str, ...], isolation: str) -> None:
    fixture = asking(6, isolation=isolation)
    plain = without_times(asked(fixture, HashEmbedder(), *streams))
    assert plain["ids"].map(len).min() >= 3
    for _ in range(2):  # the first fills the cache, the second reads it
        cached = CachedEmbedder(HashEmbedder(), path)
        rows = asked(fixture, cached, *streams)
        pd.testing.assert_frame_equal(without_times(rows), plain)
    assert cached.computed == 0


@pytest.mark.model
def test_a_real_model_comes_out_of_the_cache_to_the_bit(path: Path) -> None:
    name = "all-MiniLM-L6-v2-int8"
    entry = models.load_registry(ROOT / catalogue.REGISTRY)[name]
    if any(check.state == "missing" for check in models.verify(entry, ROOT / "models")):
        pytest.skip(f"models/{name} is not there; fetch it with `make models`")
    plain = catalogue.open_embedder(name, ROOT)
    cached = CachedEmbedder(plain, path)
    expected = plain.embed_passages(TEXTS)
    assert to_the_bit(cached.embed_passages(TEXTS), expected)
    assert to_the_bit(cached.embed_passages(TEXTS), expected)
    assert cached.computed == len(TEXTS)
