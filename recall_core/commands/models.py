"""`recall models`: which there are, fetch, verify, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recall_core import config

app = typer.Typer(help="Models: which there are, fetch, verify.", no_args_is_help=True)


@app.command("list")
def models_list() -> None:
    """List the models, and whether their files are here."""
    from recall_core import models

    root = config.find_root()
    for entry in models.load_registry(root / "models" / "registry.toml").values():
        checks = models.verify(entry, root / "models")
        states = {check.state for check in checks}
        here = "damaged" if "wrong" in states else "unrecorded" if "unrecorded" in states else "not fetched"
        state = "here" if states == {"ok"} else here
        sizes = [(check.expected or check.found) for check in checks]
        size = f"{sum(found.bytes for found in sizes if found) / 1e6:.1f}" if all(sizes) else "?"
        typer.echo(f"{entry.name:<38} {state:<12} {entry.dim:>4} dim {size:>7} MB  {entry.licence}")


@app.command("pull")
def models_pull(
    names: Annotated[list[str] | None, typer.Argument(help="Default: those recall.toml names.")] = None,
) -> None:
    """Fetch models and check their hashes. What is here already is not fetched again."""
    from recall_core import catalogue, models

    root = config.find_root()
    registry = models.load_registry(root / "models" / "registry.toml")
    configured = catalogue.needed(config.load(root / config.NAME), root)
    for name in names or configured:
        folder = models.pull(models.entry_named(registry, name), root / "models")
        typer.echo(f"{name}: complete in {folder}")


@app.command("verify")
def models_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Default: all that are here.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Say which measured model this deployed file is.")
    ] = None,
) -> None:
    """Check the hash of every model file, or say whether a deployed file is one that was measured."""
    from recall_core import models
    from recall_core.records import ModelError

    root = config.find_root()
    registry = models.load_registry(root / "models" / "registry.toml")
    if against:
        known = [models.entry_named(registry, n) for n in names or registry]
        typer.echo(models.identify(known, against, root / "models"))
        return
    bad = []
    for name in names or registry:
        for check in models.verify(models.entry_named(registry, name), root / "models"):
            if check.state == "missing" and not names:
                continue
            typer.echo(f"{name}/{check.name}: {check.state}")
            if check.state != "ok":
                bad.append(f"{name}/{check}")
    if bad:
        raise ModelError("\n  ".join(bad))


@app.command("check")
def models_check(
    name: Annotated[str, typer.Argument(help="An embedder's name.")],
    fixture: Annotated[Path | None, typer.Option(help="Whose texts to use. Default: recall.toml.")] = None,
) -> None:
    """Measure what must be true of an embedder: unit rows, the same in any batch, on any thread, again."""
    from recall_core import catalogue, fixtures, health, studies
    from recall_core.records import ModelError

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
