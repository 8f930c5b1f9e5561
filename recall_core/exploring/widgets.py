"""The panels of the desk: sliders and fields where a front end draws them, and the same as still output."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from recall_core.exploring import html as show
from recall_core.exploring.ask import NOTES, SHELVES, Asked
from recall_core.exploring.desk import LATER, SILENT, Desk
from recall_core.exploring.panel import Panel, still_html
from recall_core.gates import Gate
from recall_core.records import Memory, RecallError

MARKING = "With a live kernel, a button here appends this question to the case drafts."


def runs(desk: Desk) -> Panel:
    """Pick a run."""

    def live() -> Any:
        import ipywidgets as w

        choices = desk.library.choices()
        held = next((given for shown, given in choices if shown == desk.run.name), None)
        pick = w.Dropdown(
            options=choices, value=held, description="run", layout=w.Layout(width="420px", max_width="98%")
        )
        about = w.HTML(_page(desk.about()))

        def change(_: object) -> None:
            about.value = _page(show.note("Opening …"))
            try:
                desk.pick(pick.value)
            except RecallError as error:
                about.value = _page(show.note(f"Cannot be opened; the run before stays: {error}"))
            else:
                about.value = _page(desk.about())

        pick.observe(change, "value")
        return _framed(w, pick, about)

    return Panel(lambda: [still_html(desk.about())], live)


def gate(desk: Desk) -> Panel:
    """Move the gate: where it lies on the frontier, what it gives, which cases flip."""

    def still() -> list[object]:
        from IPython.display import Image

        step = desk.step()
        drawn = show.picture(desk.table, step.counts, star=True)
        width, height = show.SIZE
        image = Image(drawn.png, width=width, height=height, alt="the frontier and this gate on it")  # type: ignore[no-untyped-call]
        return [image, still_html(desk.counted(step) + desk.flips(step))]

    return Panel(still, lambda: _Gate(desk).box)


class _Gate:
    """The sliders, and what follows them."""

    def __init__(self, desk: Desk) -> None:
        import ipywidgets as w

        self.desk = desk
        wide = {"style": {"description_width": "80px"}}
        wide |= {"layout": w.Layout(width="400px", max_width="98%")}
        self.min_score = w.FloatSlider(description="min_score", **wide)
        self.delta = w.FloatSlider(description="delta", **wide)
        self.margin = w.Checkbox(description="margin gate", indent=False, layout=w.Layout(width="120px"))
        self.back = w.Button(description="Back", tooltip="to the setting it is compared with")
        self.keep = w.Button(description="Compare with this", tooltip="flips are then told against this")
        self.image = w.Image(format="png", width=show.SIZE[0], height=show.SIZE[1])
        self.star, self.counts, self.flips = w.HTML(), w.HTML(), w.HTML()
        for part, name in ((self.counts, "recall-counts"), (self.flips, "recall-flips")):
            part.add_class(name)
        sized = w.Layout(width=f"{show.SIZE[0]}px", max_width="100%", flex="0 0 auto")
        stack = w.Box([self.image, self.star], layout=sized).add_class("recall-stack")
        wrapped = {"flex_flow": "row wrap"}
        buttons = w.HBox([self.margin, self.back, self.keep], layout=w.Layout(**wrapped))
        beside = w.Layout(flex="1 1 400px", min_width="min(400px, 100%)")
        knobs = w.VBox([self.min_score, self.delta, buttons, self.counts], layout=beside)
        row = w.HBox([stack, knobs], layout=w.Layout(**wrapped, grid_gap="16px"))
        self.box = _framed(w, row, self.flips)
        self._turning = False
        desk.on_run["gate"] = self.open
        desk.on_gate["gate"] = self.show
        self.open()
        for knob in (self.min_score, self.delta, self.margin):
            knob.observe(self.turned, "value")
        self.back.on_click(lambda _: self.set(desk.before))
        self.keep.on_click(lambda _: self.compare())

    def open(self) -> None:
        """A run was picked."""
        with self._quietly():
            for knob, dial in zip((self.min_score, self.delta), self.desk.dials, strict=True):
                places = max(2, len(f"{dial.step:.6f}".rstrip("0").partition(".")[2]))
                with knob.hold_trait_notifications():
                    knob.min, knob.max, knob.step = dial.low, dial.high, dial.step
                    knob.readout_format = f".{places}f"
        self.drawn = show.picture(self.desk.table, self.desk.step().counts, star=False)
        self.image.value = self.drawn.png
        self.set(self.desk.gate)

    def set(self, gate: Gate) -> None:
        """Turn the knobs to a gate."""
        with self._quietly():
            self.min_score.value = gate.min_score
            self.delta.value = gate.delta or 0.0
            self.margin.value = gate.delta is not None
            self.delta.disabled = gate.delta is None
        self.desk.move(gate)

    def compare(self) -> None:
        """Tell flips against the present gate from now on."""
        self.desk.before = self.desk.gate
        self.desk.move(self.desk.gate)

    def turned(self, _: object) -> None:
        """A knob was turned."""
        if not self._turning:
            self.delta.disabled = not self.margin.value
            delta = round(self.delta.value, 6) if self.margin.value else None
            self.desk.move(Gate(round(self.min_score.value, 6), delta))

    def show(self) -> None:
        """Follow the gate."""
        step = self.desk.step()
        self.star.value = self.drawn.star(step.counts)
        self.counts.value = _page(self.desk.counted(step))
        self.flips.value = _page(self.desk.flips(step))

    @contextmanager
    def _quietly(self) -> Any:
        self._turning = True
        try:
            yield
        finally:
            self._turning = False


def ask(desk: Desk, question: str, shelf: str = NOTES) -> Panel:
    """Ask anything: what every stream finds, all together, and what the gate says."""

    def live() -> Any:
        import ipywidgets as w

        text = w.Text(question, continuous_update=False, description="question", placeholder="then Enter")
        text.layout = w.Layout(width="620px", max_width="98%")
        where = w.ToggleButtons(options=SHELVES, value=shelf, style={"button_width": "80px"})
        shown, row = w.HTML(), _Marking(w, desk)
        kept: list[Asked] = []

        def search(_: object = None) -> None:
            shown.value = _page(show.note("Searching …"))
            kept.clear()
            try:
                kept.append(desk.ask(text.value, where.value))
            except RecallError as error:
                shown.value = _page(show.note(str(error)))
                row.about("", [], None)
                return
            hits = [hit.id for hit in kept[0].fused.hits[: show.TOP]]
            row.about(text.value, [kept[0].memories[id_] for id_ in hits], None)
            follow()

        def follow() -> None:
            shown.value = _page(desk.asked(kept[0])) if kept else shown.value

        text.observe(search, "value")
        where.observe(search, "value")
        desk.on_run["ask"] = search
        desk.on_gate["ask"] = follow
        search()
        return _framed(w, w.HBox([text, where], layout=w.Layout(flex_flow="row wrap")), shown, row.box)

    def still() -> list[object]:
        return [still_html(desk.asked(desk.ask(question, shelf)) + show.note(MARKING))]

    return Panel(still, live)


def failures(desk: Desk) -> Panel:
    """Pick a case that failed: what came out on top of it, and what else that beats."""

    def live() -> Any:
        import ipywidgets as w

        pick = w.Dropdown(description="failed", layout=w.Layout(width="860px", max_width="98%"))
        shown, row = w.HTML(), _Marking(w, desk)
        told: list[str] = []

        def follow() -> None:
            failed, held = desk.failures(), pick.value
            told[:] = ["quiet"]
            if list(pick.options) != failed:
                pick.options = failed
            pick.value = held if held in [id_ for _, id_ in failed] else (failed[0][1] if failed else None)
            told.clear()
            look()

        def look(_: object = None) -> None:
            if told:
                return
            if pick.value is None:
                shown.value = _page(show.note("Every case passes this gate."))
                row.about("", [], None)
                return
            html, seen = desk.failed(pick.value)
            shown.value = _page(html)
            case = desk.run.cases.get(pick.value)
            row.about(case.query if case else "", seen, case.lang if case else None)

        pick.observe(look, "value")
        desk.on_run["failures"] = follow
        desk.on_gate["failures"] = follow
        follow()
        return _framed(w, pick, shown, row.box)

    def still() -> list[object]:
        shown = "".join(desk.failed(id_)[0] for _, id_ in desk.failures()[:2])
        return [still_html((shown or show.note("Every case passes this gate.")) + show.note(MARKING))]

    return Panel(still, live)


class _Marking:
    """The line below a question that makes a case draft of it."""

    def __init__(self, w: Any, desk: Desk) -> None:
        self.desk = desk
        self.answer = w.Dropdown(description="expected", layout=w.Layout(width="480px", max_width="98%"))
        self.why = w.Text(placeholder="why nothing answers it", layout=w.Layout(width="240px"))
        self.button = w.Button(description="Mark as a case draft", layout=w.Layout(width="160px"))
        self.said = w.HTML()
        row = w.HBox([self.answer, self.why, self.button], layout=w.Layout(flex_flow="row wrap"))
        self.box = w.VBox([row, self.said])
        self.answer.observe(lambda _: self._fit(), "value")
        self.button.on_click(lambda _: self._mark())

    def about(self, query: str, seen: Sequence[Memory], lang: str | None) -> None:
        """Another question."""
        if (query, list(seen), lang) == getattr(self, "held", None):
            return
        self.held = (query, list(seen), lang)
        options = [("I complete it in the file", LATER), ("nothing: it must stay silent", SILENT)]
        self.answer.options = options + [(f"{m.id}: {m.text[:80]}", m.id) for m in seen]
        self.answer.value = LATER
        self.said.value = ""
        self._fit()

    def _fit(self) -> None:
        self.why.layout.display = "" if self.answer.value == SILENT else "none"
        self.button.disabled = not self.held[0].strip()

    def _mark(self) -> None:
        query, seen, lang = self.held
        self.button.disabled = True  # a second click would mark it twice
        try:
            said = self.desk.mark(query, seen, self.answer.value, self.why.value, lang)
        except (RecallError, OSError) as error:
            said = str(error)
        self.said.value = _page(show.note(said))


def _framed(w: Any, *parts: Any) -> Any:
    box = w.VBox([w.HTML(show.STYLE, layout=w.Layout(display="none")), *parts])
    return box.add_class("recall-live")


def _page(html: str) -> str:
    return f'<div class="recall">{html}</div>'
