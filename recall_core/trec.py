"""Runs and qrels as TREC files, for any evaluation tool that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pandas as pd


def write(rows: pd.DataFrame, folder: Path, tag: str) -> str:
    """Write `run.trec` and `qrels.trec` from scored rows. Returns what was done.

    Blanks and other odd characters in ids are percent-encoded: the format separates fields by blanks. Cases
    that must find nothing have no qrels, as the format has no way to say it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.trec").write_text("".join(_run_lines(rows, quote(tag))), encoding="utf-8")
    (folder / "qrels.trec").write_text("".join(_qrels_lines(rows)), encoding="utf-8")
    return f"TREC run and qrels in {folder}"


def _run_lines(rows: pd.DataFrame, tag: str) -> Iterator[str]:
    for row in rows.itertuples():
        for rank, (id_, score) in enumerate(zip(row.ids, row.scores, strict=True), 1):
            yield f"{quote(row.case_id)} Q0 {quote(id_)} {rank} {score!r} {tag}\n"


def _qrels_lines(rows: pd.DataFrame) -> Iterator[str]:
    for row in rows.itertuples():
        for id_ in row.expected:
            yield f"{quote(row.case_id)} 0 {quote(id_)} 1\n"
