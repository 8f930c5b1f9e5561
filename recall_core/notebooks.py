"""Notebooks: run one through papermill, strictly, and render it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import papermill
from nbconvert import HTMLExporter
from traitlets.config import Config

from recall_core.records import ConfigError, RecallError

KERNEL = Config({} if os.name == "nt" else {"KernelManager": {"transport": "ipc"}})
"""Talk to the kernel over a local socket: no port is opened that others on the machine could read."""


def execute(notebook: Path, output: Path, parameters: dict[str, Any], root: Path, *, quiet: bool) -> None:
    """Run one notebook in its own kernel.

    Raises ConfigError for a parameter it does not declare (papermill would only warn and run with the
    default), RecallError when a cell fails.
    """
    declared = papermill.inspect_notebook(str(notebook))
    unknown = sorted(parameters.keys() - declared.keys())
    if unknown:
        raise ConfigError(
            f"{notebook.name} declares no parameter {', '.join(unknown)}; it has "
            f"{', '.join(sorted(declared))}"
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        papermill.execute_notebook(
            str(notebook),
            str(output),
            parameters=parameters,
            kernel_name="python3",
            cwd=str(root),
            progress_bar=False if quiet else {"desc": output.stem, "leave": True},
            config=KERNEL,
        )
    except papermill.PapermillExecutionError as error:
        raise RecallError(
            f"{notebook.name}, cell {error.exec_count}: {error.ename}: {error.evalue}"
        ) from error


def render(executed: Path) -> Path:
    """Write an executed notebook as HTML beside it, without its input cells."""
    body, _ = HTMLExporter(exclude_input=True).from_filename(str(executed))  # type: ignore[no-untyped-call]
    page = executed.with_suffix(".html")
    page.write_text(body, encoding="utf-8")
    return page
