"""The gate as a file a daemon can read: what opens it, for which path, and what was promised of it.

The rule is `top1 >= min_score` and `signal > threshold`. With the signal `margin` the threshold is the delta
of `gates.Gate`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from recall_core import wording
from recall_core.records import FingerprintError, Id, InputError, Ranking, Record
from recall_core.writing import write_whole

Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Counts(Record):
    """What a gate does on one half of a fixture."""

    answerable: Count
    answered: Count
    """Answerable, right first, and spoken."""
    misled: Count
    """Answerable, and something else is spoken. No promise is made of these."""
    silent: Count
    false_recall: Count
    """Must stay silent, and something is spoken."""
    false_recall_at_most: Annotated[float, Field(ge=0, le=1)]
    """One-sided upper bound of the share of false recalls (Clopper and Pearson, Biometrika 1934), at the
    confidence of the file. 1.0 without silent cases."""


class GateFile(Record):
    """`gate.json`."""

    format: Literal[1] = 1
    signal: Annotated[str, Field(min_length=1)]
    """The column of a scored case that is compared with the threshold."""
    min_score: Finite
    """Least top1 that is spoken; it was fixed before the choice."""
    threshold: Finite
    """The signal must be above it."""
    path: str
    fingerprints: Annotated[tuple[Sha256, ...], Field(min_length=1)]
    """Of the paths it is valid for: scores of any other are on another scale."""
    fixture: Id
    fixture_hash: Sha256
    memories: Count
    """Memories in the stores it was chosen on (the median): in a much larger one it does not hold."""
    method: Literal["fixed_sequence"] = "fixed_sequence"
    max_false: Share
    """The promise: the share of silent questions that are spoken to is at most this ..."""
    confidence: Share
    """... in this share of all draws of a tune half like the one it was chosen on."""
    tune: Counts
    test: Counts
    chosen_on: date

    @model_validator(mode="after")
    def _margin_is_not_negative(self) -> GateFile:
        if self.signal == "margin" and self.threshold < 0:
            raise ValueError(f"a margin is never below 0, so it cannot be above {self.threshold}")
        return self

    def check(self, fingerprint: str) -> None:
        """Raises FingerprintError when the gate was not chosen for this path."""
        if fingerprint not in self.fingerprints:
            own = ", ".join(known[:12] for known in self.fingerprints)
            raise FingerprintError(
                f"this gate was chosen for the path {self.path} ({own}), and it is asked to gate another "
                f"({fingerprint[:12]}), whose scores are on another scale; ask with --path {self.path}, or "
                f"choose anew with: recall gate choose --path NAME --signal {self.signal} "
                f"--max-false {self.max_false:g} --confidence {self.confidence:g}"
            )

    def opens(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        """(n,) bool: where it opens. A case whose search failed counts as opened: its worst value."""
        return opened_above(rows, self.signal, np.array([self.threshold]), self.min_score)[:, 0]


def explain(gate: GateFile, ranking: Ranking, measured: Mapping[str, float]) -> str:
    """One line on what the gate does with a ranking, and why. `measured`: its signals, by name.

    Raises InputError when the gate's signal is not among them.
    """
    if not ranking.hits:
        return "kept quiet: nothing was found"
    if gate.signal not in measured:
        raise InputError(
            f"the gate looks at {gate.signal!r}, and {', '.join(measured)} are measured; choose a gate on "
            "one of these"
        )
    top1, value = ranking.hits[0].score, measured[gate.signal]
    if top1 < gate.min_score:
        return f"kept quiet: the best score {top1:.4f} is below min_score {gate.min_score:g}"
    above = value > gate.threshold
    verdict, stands = ("spoken", "above") if above else ("kept quiet", "not above")
    return f"{verdict}: {gate.signal} is {value:.4f}, {stands} {gate.threshold:g}"


def opened_above(
    rows: pd.DataFrame, signal: str, thresholds: NDArray[np.float64], min_score: float = 0.0
) -> NDArray[np.bool_]:
    """(cases, thresholds) bool: where each gate opens. A failed search opens them all.

    A signal is a number of a scored case that does not know the answer. Raises InputError on any other.
    """
    known = rows.select_dtypes("floating").columns.drop(["rank", "embed_ms", "search_ms"], errors="ignore")
    if signal not in known:
        raise InputError(f"the scored cases have no signal {signal!r}; they have: {', '.join(known)}")
    floor = rows["top1"].to_numpy(np.float64) >= min_score
    opens = (rows[signal].to_numpy(np.float64)[:, None] > thresholds) & floor[:, None]
    return np.asarray(opens | rows["failed"].to_numpy(np.bool_)[:, None])


def save(gate: GateFile, path: Path) -> None:
    """Write it whole or not at all: a daemon that reads meanwhile finds the old file or the new one."""
    write_whole(path, gate.model_dump_json(indent=1) + "\n")


def load(path: Path) -> GateFile:
    """Read what `save` wrote. Raises InputError that names the file and every problem in it."""
    try:
        raw = json.loads(path.read_bytes())
        return GateFile.model_validate(raw)
    except ValidationError as error:
        said = wording.problems(error, raw, {})
        head = f"{path}: {len(said)} problem(s); make it anew with: recall gate choose"
        raise InputError("\n  ".join([head, *said])) from None
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({why}); make it with: recall gate choose") from None
