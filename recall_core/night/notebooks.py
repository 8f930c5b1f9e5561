"""Notebooks: run one through papermill, strictly, and render it.

`python -m recall_core.night.notebooks` does it for the night: one process a notebook, so that a kernel that
dies, a notebook that hangs and two at a time are all matters of a process and a clock.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter
from traitlets.config import Config

from recall_core import progress
from recall_core.night.workers import clear_sockets, end_group, socket_prefix
from recall_core.records import ConfigError, RecallError
from recall_core.reporting import web

SHOWN = (
    *("text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/latex"),
    *("application/vnd.jupyter.widget-view+json", "text/plain"),
)
"""What is shown of an output that comes in several forms: the first of these that it has."""
Made = Callable[[AsyncKernelManager], None]


def execute(
    notebook: Path,
    output: Path,
    parameters: dict[str, Any],
    root: Path,
    *,
    quiet: bool,
    started: Made = lambda _: None,
) -> None:
    """Run one notebook in its own kernel; `started` is given the manager of it.

    Raises ConfigError for a parameter it does not declare (papermill would only warn and run with the
    default), RecallError when a cell fails or the kernel dies.
    """
    declared = papermill.inspect_notebook(str(notebook))
    if unknown := sorted(parameters.keys() - declared.keys()):
        raise ConfigError(
            f"{notebook.name} declares no parameter {', '.join(unknown)}; it has "
            f"{', '.join(sorted(declared))}"
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    cells = len(json.loads(notebook.read_text(encoding="utf-8"))["cells"])
    ended: list[int] = []

    class Watched(AsyncKernelManager):
        """Remembers how its kernel ended, as subprocess counts it; nbclient only says that it did."""

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            await AsyncKernelManager.start_kernel(self, **options)
            started(self)

        async def is_alive(self) -> bool:  # type: ignore[override]
            if self.has_kernel and self.provisioner and not ended:
                status = await self.provisioner.poll()
                ended.extend([] if status is None else [status])
            return bool(await AsyncKernelManager.is_alive(self))

    # A local socket opens no port that others on the machine could read. Left to itself, jupyter_client puts
    # the sockets of every kernel under one name in the working folder: two at a time would read each other's.
    sockets = tempfile.mkdtemp(prefix=socket_prefix(os.getpid()))
    kernel = {"transport": "ipc", "connection_file": str(Path(sockets) / "kernel.json")}
    try:
        papermill.execute_notebook(
            str(notebook),
            str(output),
            parameters=parameters,
            kernel_name="python3",
            cwd=str(root),
            progress_bar=False if quiet else {"desc": output.stem, "leave": True},
            config=Config(KernelManager=kernel),
            kernel_manager_class=Watched,
            on_cell_complete=lambda cell_index, **_: progress.tell(
                desc="cells", done=min(cell_index, cells), total=cells
            ),
        )
    except papermill.PapermillExecutionError as error:
        raise RecallError(
            f"{notebook.name}, cell {error.exec_count}: {error.ename}: {error.evalue}"
        ) from error
    except (DeadKernelError, CellTimeoutError, RuntimeError) as error:
        # nbclient says that the kernel died, jupyter_client (RuntimeError) that it died before it was ready.
        raise RecallError(f"{notebook.name}: {_why(ended[0]) if ended else error}") from error
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


def render(executed: Path) -> Path:
    """Write an executed notebook as HTML beside it, without its input cells.

    The page fetches nothing and runs no script. A picture is described by the prose before it.
    """
    notebook = nbformat.read(executed, as_version=4)  # type: ignore[no-untyped-call]
    prose = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = cell.source.rsplit("\n\n", 1)[-1]
        else:
            cell.metadata["alt"] = " ".join(re.sub(r"[`*#]", "", prose).split()) or "A picture of this cell"
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="notebook",
        extra_template_basedirs=[str(Path(__file__).parents[1] / "templates")],
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
        config=Config(NbConvertBase={"display_data_priority": list(SHOWN)}),
    )
    body, _ = exporter.from_notebook_node(notebook)
    title = re.search(r"^# (.+)", "\n".join(cell.source for cell in notebook.cells), re.MULTILINE)
    run_with = notebook.metadata.get("papermill", {}).get("parameters", {})
    shown = [(str(name), str(value)) for name, value in run_with.items() if name != "out"]
    page = executed.with_suffix(".html")
    text = web.notebook(body, title[1] if title else executed.stem, shown)
    page.write_text(text, encoding="utf-8")
    return page


def _why(status: int) -> str:
    """One sentence on a kernel that ended by itself."""
    if status >= 0:
        return f"the kernel ended itself with exit code {status}"
    if status == -signal.SIGKILL:
        return "the kernel was killed (signal 9): out of memory, or by hand"
    return f"the kernel died of signal {-status} ({signal.Signals(-status).name})"


def _end_with_parent(managers: list[AsyncKernelManager]) -> None:
    """When the night closes our standard input, or dies, take the kernel along; it has a session of its own.

    The one way to end us early: what is half-written lies in the night's own folder, and goes with it.
    """
    while os.read(0, 1024):  # sys.stdin would be locked by this thread when the interpreter ends
        pass
    for manager in managers:
        if manager.has_kernel:
            end_group(manager.provisioner.pid)  # type: ignore[union-attr]
    clear_sockets(os.getpid())
    os._exit(1)


def main() -> int:
    """Run the notebook that standard input's first line describes, as JSON; the reason of a failure is told.

    Exit code: 0, or that of the error. Anything unforeseen is a traceback and 1.
    """
    task = json.loads(sys.stdin.buffer.readline())
    managers: list[AsyncKernelManager] = []
    threading.Thread(target=_end_with_parent, args=[managers], daemon=True).start()

    def started(manager: AsyncKernelManager) -> None:
        managers.append(manager)
        progress.tell(kernel=getattr(manager.provisioner, "pid", None))

    executed = Path(task["executed"])
    try:
        notebook, root = Path(task["notebook"]), Path(task["root"])
        execute(notebook, executed, task["parameters"], root, quiet=True, started=started)
        render(executed)
    except (RecallError, OSError) as error:
        progress.tell(failed=str(error))
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code if isinstance(error, RecallError) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
