"""The panels of the desk: sliders and fields where a front end draws them, and the same as still output."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ipywidgets as w
from IPython.core.getipython import get_ipython
from IPython.display import HTML, Image, display

from recall_core.exploring import html as show
from recall_core.exploring.ask import NOTES, SHELVES
from recall_core.exploring.desk import LATER, SILENT, Desk, View
from recall_core.gates import Gate
from recall_core.records import RecallError

MARKING = show.note("With a live kernel, a button here appends this question to the case drafts.")
NONE = show.note("Every case passes this gate.")


def is_live() -> bool:
    """Whether somebody can move a slider.

    papermill and nbconvert say that nobody will answer a prompt; a notebook that is open does not.
    """
    return bool(getattr(getattr(get_ipython(), "kernel", None), "_allow_stdin", False))


def shown(live: Callable[[], Any], *still: object) -> None:
    """Show what one cell shows: `still`, HTML or other outputs, and where somebody can use it the widget.

    The still output is always left. Where the widget is drawn, a style rule hides it; on a code host, in
    nbconvert, and in a notebook that is opened without its kernel, it is what there is to see.
    """
    if is_live():
        display(live())  # type: ignore[no-untyped-call]
    for part in still:
        display(HTML(show.page(part)) if isinstance(part, str) else part)  # type: ignore[no-untyped-call]


def runs(desk: Desk) -> None:
    """Pick a run."""

    def live() -> Any:
        choices = desk.library.choices()
        held = next((given for name, given in choices if name == desk.run.name), None)
        pick = w.Dropdown(options=choices, value=held, description="run", layout=_wide(420))
        about = _html(desk.about())

        def change(_: object) -> None:
            about.value = show.note("Opening …")
            try:
                desk.open(pick.value)
                about.value = desk.about()
            except RecallError as error:
                about.value = show.note(f"Cannot be opened; the run before stays: {error}")

        pick.observe(change, "value")
        return _framed(pick, about)

    shown(live, desk.about())


def gate(desk: Desk) -> None:
    """Move the gate: where it lies on the frontier, what it gives, which cases flip."""
    size = dict(zip(("width", "height"), show.SIZE, strict=True))
    drawn = show.Picture(desk.table, desk.step.counts).png(desk.step.counts)
    image = Image(drawn, alt="the frontier and this gate on it", **size)  # type: ignore[no-untyped-call]
    shown(lambda: Knobs(desk).box, image, desk.counted() + show.flips(desk.step))


class Knobs:
    """The sliders of a gate, and what follows them."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.min_score, self.delta = (
            w.FloatSlider(description=name, style={"description_width": "80px"}, layout=_wide(400))
            for name in ("min_score", "delta")
        )
        self.margin = w.Checkbox(description="margin gate", indent=False, layout=w.Layout(width="120px"))
        self.back = w.Button(description="Back", tooltip="to the setting it is compared with")
        self.keep = w.Button(description="Compare with this", tooltip="flips are then told against this")
        self.image = w.Image(format="png", layout=_wide(show.SIZE[0]))
        self.counts, self.flips = _html().add_class("recall-counts"), _html().add_class("recall-flips")
        beside = w.VBox(
            [self.min_score, self.delta, _row(self.margin, self.back, self.keep), self.counts],
            layout=w.Layout(flex="1 1 400px", min_width="min(400px, 100%)"),
        )
        self.box = _framed(_row(self.image, beside), self.flips)
        self.table: object = None
        self.follow()
        desk.panels["gate"] = self.follow
        for knob in (self.min_score, self.delta, self.margin):
            knob.observe(self.turned, "value")
        self.back.on_click(lambda _: desk.move(desk.before))
        self.keep.on_click(lambda _: desk.move(desk.gate, compare=True))

    def follow(self) -> None:
        """Follow the desk: its run, and its gate."""
        desk, gate, self.still = self.desk, self.desk.gate, False
        if self.table is not desk.table:
            self.table, self.picture = desk.table, show.Picture(desk.table, desk.step.counts)
            for knob, dial in zip((self.min_score, self.delta), desk.dials, strict=True):
                size = round(dial[1] - dial[0], 6)
                knob.readout_format = f".{max(2, math.ceil(-math.log10(size)))}f"
                with knob.hold_trait_notifications():
                    knob.min, knob.max, knob.step, knob.value = dial[0], dial[-1], size, dial[0]
        # A knob that stands there already is not set: the hand that drags it may be further on by now.
        if round(self.min_score.value, 6) != gate.min_score:
            self.min_score.value = gate.min_score
        if gate.delta is not None and round(self.delta.value, 6) != gate.delta:
            self.delta.value = gate.delta
        self.margin.value = gate.delta is not None
        self.delta.disabled = gate.delta is None
        self.still = True
        self.image.value = self.picture.png(desk.step.counts)
        self.counts.value, self.flips.value = desk.counted(), show.flips(desk.step)

    def turned(self, _: object) -> None:
        """A knob was turned."""
        if self.still:
            delta = round(self.delta.value, 6) if self.margin.value else None
            self.desk.move(Gate(round(self.min_score.value, 6), delta))


def ask(desk: Desk, question: str, shelf: str = NOTES) -> None:
    """Ask anything: what every stream finds, all together, and what the gate says."""

    def live() -> Any:
        text = w.Text(question, continuous_update=False, description="question", placeholder="then Enter")
        text.layout = _wide(620)
        where = w.ToggleButtons(options=SHELVES, value=shelf, style={"button_width": "80px"})
        found = Question(desk)

        def search(change: object = None) -> None:
            if change:
                found.html.value = show.note("Searching …")
            try:
                found.show(desk.asked(text.value, where.value))
            except RecallError as error:
                found.show(View(show.note(str(error))))

        text.observe(search, "value")
        where.observe(search, "value")
        desk.panels["ask"] = search
        search()
        return _framed(_row(text, where), found.box)

    shown(live, desk.asked(question, shelf).html + MARKING)


def failures(desk: Desk) -> None:
    """Pick a case that failed: what came out on top of it, and what else that beats."""

    def live() -> Any:
        pick, case = w.Dropdown(description="failed", layout=_wide(860)), Question(desk)

        def look(_: object = None) -> None:
            case.show(View(NONE) if pick.value is None else desk.failed(pick.value))

        def follow() -> None:
            failed, held = desk.failures(), pick.value
            pick.unobserve(look, "value")
            if list(pick.options) != failed:
                pick.options = failed
                if held in (id_ for _, id_ in failed):
                    pick.value = held
            pick.observe(look, "value")
            look()

        pick.observe(look, "value")
        desk.panels["failures"] = follow
        follow()
        return _framed(pick, case.box)

    still = "".join(desk.failed(id_).html for _, id_ in desk.failures()[:2])
    shown(live, (still or NONE) + MARKING)


class Question:
    """What is shown of a question, and the line below it that makes a case draft of it."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.view = desk, View("", "?")
        self.html, self.said = _html(), _html()
        self.answer = w.Dropdown(description="expected", layout=_wide(480))
        self.why = w.Text(placeholder="why nothing answers it", layout=w.Layout(width="240px"))
        self.button = w.Button(description="Mark as a case draft", layout=w.Layout(width="160px"))
        self.box = w.VBox([self.html, _row(self.answer, self.why, self.button), self.said])
        self.answer.observe(self.fit, "value")
        self.button.on_click(self.mark)

    def show(self, view: View) -> None:
        """Show a question; what was chosen for a draft of it stays while it is the same."""
        self.html.value = view.html
        if view[1:] != self.view[1:]:
            self.view = view
            options = [("I complete it in the file", LATER), ("nothing: it must stay silent", SILENT)]
            self.answer.options = options + [(f"{m.id}: {m.text[:80]}", m.id) for m in view.seen]
            self.answer.value = LATER
            self.said.value = ""
            self.fit()

    def fit(self, _: object = None) -> None:
        """Ask for what a draft with this answer needs."""
        self.why.layout.display = "" if self.answer.value == SILENT else "none"
        self.button.disabled = not self.view.query.strip()

    def mark(self, _: object) -> None:
        """Make the draft, and say where it is."""
        self.button.disabled = True  # a second click would mark it twice
        try:
            said = self.desk.mark(self.view, self.answer.value, self.why.value)
        except (RecallError, OSError) as error:
            said = str(error)
        self.said.value = show.note(said)


def _html(text: str = "") -> Any:
    return w.HTML(text).add_class("recall")


def _wide(pixels: int) -> Any:
    return w.Layout(width=f"{pixels}px", max_width="98%")


def _row(*parts: Any) -> Any:
    return w.HBox(parts, layout=w.Layout(flex_flow="row wrap", grid_gap="4px 16px"))


def _framed(*parts: Any) -> Any:
    box = w.VBox([w.HTML(show.STYLE, layout=w.Layout(display="none")), *parts])
    return box.add_class("recall-live")
