"""A figure as SVG inside a page: its colours follow the page's scheme, and it scales with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

import matplotlib
from markdown_it.common.utils import escapeHtml
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recall_core import plots

SCHEME = {
    "#222222": "ink",
    "#333333": "quiet",
    "#555555": "quiet",
    "#8a8a8a": "quiet",
    "#e6e6e6": "rule",
    plots.COLOURS["right"].lower(): "right",
    plots.COLOURS["silent"].lower(): "silent",
}
"""The colours of the style and of the plots, and the names `style.css` has for them."""


def inline(draw: Callable[[Axes], object], alt: str, key: str, inches: tuple[float, float]) -> str:
    """What `draw` draws, as one `<svg>`. `key` keeps its ids apart from those of others on the page."""
    with matplotlib.style.context(plots.STYLE), matplotlib.rc_context({"svg.fonttype": "none"}):
        figure = Figure(figsize=inches)
        draw(figure.subplots())
        held = StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(held, format="svg", transparent=True, metadata=nothing)
    drawn = re.sub(r"<metadata>.*?</metadata>", "", held.getvalue(), flags=re.DOTALL)
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{key}-", drawn)
    for colour, name in SCHEME.items():
        drawn = re.sub(colour, f"var(--{name})", drawn, flags=re.IGNORECASE)
    box = re.search(r'viewBox="[^"]*"', drawn)
    opened = f'<svg {box[0] if box else ""} role="img" aria-label="{escapeHtml(alt)}">'
    return opened + drawn[drawn.index(">") + 1 :].strip()
