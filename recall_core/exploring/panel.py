"""A panel: what one cell of the exploring notebook shows, with a kernel behind it or without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recall_core.exploring import html as show


def is_live() -> bool:
    """Whether somebody can move a slider: ipywidgets is here, and so is a front end.

    papermill and nbconvert say that nobody will answer a prompt; a notebook that is open does not.
    """
    try:
        import ipywidgets  # noqa: F401 - only whether it is here
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


@dataclass(frozen=True)
class Panel:
    """What one cell shows. `still`: outputs for anywhere; `live`: makes the widget.

    The still output is always left. Where the widget is drawn, a style rule hides it; on a code host, in
    nbconvert, and in a notebook that is opened without its kernel, it is what there is to see.
    """

    still: Callable[[], Sequence[object]]
    live: Callable[[], Any]

    def _ipython_display_(self) -> None:
        from IPython.display import display

        if is_live():
            display(self.live())  # type: ignore[no-untyped-call]
        for part in self.still():
            display(part)  # type: ignore[no-untyped-call]


def still_html(html: str) -> object:
    """HTML as an output of its own."""
    from IPython.display import HTML

    return HTML(show.page(html))  # type: ignore[no-untyped-call]
