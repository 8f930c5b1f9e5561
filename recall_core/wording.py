"""What pydantic found wrong with a file, in words for the person who wrote it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

KINDS: Mapping[int | str, str] = {
    "cases": "case",
    "groups": "group",
    "memories": "memory",
    "filler": "memory",
    "model": "model",
}
"""The lists whose items are told by their id, or by their name."""
TYPES = {
    "string": "a text in quotes",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "tuple": "a list in brackets",
    "dict": "an object in braces",
    "model": "an object in braces",
}
"""The first word of pydantic's type of error -> what should stand there."""


def problems(error: ValidationError, raw: Any, wanted: Mapping[str, str]) -> list[str]:
    """One line a problem: the place in `raw`, what was found there, what is wanted, and an example.

    `wanted`: key -> what to write there, as one would type it.
    """
    # Of a list in which every item is broken pydantic also says that it is empty.
    told = [found for found in error.errors() if found["type"] != "too_short" or not found["input"]]
    return [_problem(dict(found), raw, wanted) for found in told]


def _problem(found: dict[str, Any], raw: Any, wanted: Mapping[str, str]) -> str:
    loc = [step for step in found["loc"] if not str(step).startswith("<")]
    node, named, kind = raw, "", ""
    for step in loc[:-1]:
        node = node[step]
        kind = KINDS.get(step, kind)
        called = node.get("id", node.get("name")) if isinstance(node, dict) else None
        if kind and isinstance(called, str):
            named += f"{kind} {called!r:.80}, "
            kind = ""
    key = next((step for step in reversed(loc) if isinstance(step, str)), "")
    where = ".".join(map(str, loc)) or "the file"
    example = f"; write {wanted[key]}" if key in wanted else ""
    kind_of_error = found["type"]
    if kind_of_error == "missing":
        said = f"is missing{example}"
    elif kind_of_error == "extra_forbidden":
        near = difflib.get_close_matches(key, wanted, 1)
        said = f"there is no such key; {f'did you mean {near[0]}?' if near else 'remove it'}"
    elif kind_of_error == "value_error":
        said = f"{found['msg'].removeprefix('Value error, ')}{_shown(found['input'])}"
    else:
        said = f"wanted {_expected(found)}{_shown(found['input'])}{example}"
    return f"{named}{where}: {said}".encode("utf-8", "backslashreplace").decode()


def _expected(found: dict[str, Any]) -> str:
    kind, given = found["type"], found.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return "another form"
    if kind in ("too_short", "string_too_short"):
        return "at least one"
    if kind == "string_unicode":
        return "whole characters, not half of a surrogate pair"
    if "expected" in given:
        return str(given["expected"])
    if kind.endswith(("_type", "_parsing")) and kind.split("_")[0] in TYPES:
        return TYPES[kind.split("_")[0]]
    return str(found["msg"]).removeprefix("Input should be ")


def _shown(value: Any) -> str:
    if isinstance(value, (str, int, float, bool)):
        return f", found {value!r:.60}"
    return {list: ", found a list", dict: ", found an object", type(None): ", found null"}.get(
        type(value), ""
    )
