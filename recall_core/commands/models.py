"""`recall models`: which there are, fetch, verify, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recall_core import config, models
from recall_core.records import ModelError

app = typer.Typer(help="Models: which there are, fetch, verify.", no_args_is_help=True)


def _known() -> tuple[Path, dict[str, models.ModelEntry]]:
    """The models folder, and what its registry says."""
    folder = config.find_root() / "models"
    return folder, models.load_registry(folder / "registry.toml")


@app.command("list")
def models_list() -> None:
    """List the models, and whether their files are here."""
    folder, registry = _known()
    words = {"wrong": "damaged", "unrecorded": "unrecorded", "missing": "not fetched", "ok": "here"}
    for entry in registry.values():
        checks = models.verify(entry, folder)
        states = {check.state for check in checks}
        state = next(word for state, word in words.items() if state in states)
        sizes = [(check.expected or check.found) for check in checks]
        size = f"{sum(found.bytes for found in sizes if found) / 1e6:.1f}" if all(sizes) else "?"
        typer.echo(f"{entry.name:<38} {state:<12} {entry.dim:>4} dim {size:>7} MB  {entry.licence}")


@app.command("pull")
def models_pull(
    names: Annotated[list[str] | None, typer.Argument(help="Default: those recall.toml names.")] = None,
) -> None:
    """Fetch models and check their hashes. What is here already is not fetched again."""
    from recall_core import catalogue

    folder, registry = _known()
    configured = catalogue.needed(config.load(folder.parent / config.NAME), folder.parent)
    for name in names or configured:
        typer.echo(f"{name}: complete in {models.pull(models.entry_named(registry, name), folder)}")


@app.command("verify")
def models_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Default: all that are here.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Say which measured model this deployed file is.")
    ] = None,
) -> None:
    """Check the hash of every model file, or say whether a deployed file is one that was measured."""
    folder, registry = _known()
    entries = [models.entry_named(registry, name) for name in names or registry]
    if against:
        typer.echo(models.identify(entries, against, folder))
        return
    bad = []
    for entry in entries:
        for check in models.verify(entry, folder):
            if check.state != "missing" or names:
                typer.echo(f"{entry.name}/{check.name}: {check.state}")
                bad += [f"{entry.name}/{check}"] if check.state != "ok" else []
    if bad:
        raise ModelError("\n  ".join(bad))


@app.command("check")
def models_check(
    name: Annotated[str, typer.Argument(help="An embedder's name.")],
    fixture: Annotated[Path | None, typer.Option(help="Whose texts to use. Default: recall.toml.")] = None,
) -> None:
    """Measure what must be true of an embedder: unit rows, the same in any batch, on any thread, again."""
    from recall_core import catalogue, fixtures, health, studies

    root = config.find_root()
    settings = config.load(root / config.NAME)
    asked = fixtures.load(fixture or root / settings.fixture)
    texts = studies.Study(asked, root, settings).texts
    queries = [case.query for case in asked.cases]
    found = health.measure(name, root, texts, queries, catalogue.gate_of(name, root, settings).delta)
    for check in found:
        state = "holds" if check.ok else "DOES NOT HOLD"
        typer.echo(f"{check.name:<26} {state:<14} {check.measured}")
    failed = ", ".join(check.name for check in found if not check.ok)
    if failed:
        raise ModelError(
            f"{name}: does not hold: {failed}; set batch_invariant = false, or use another model"
        )
