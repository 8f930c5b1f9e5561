"""The `recall` command. Each command is a few lines over the package; errors become exit codes here."""

from __future__ import annotations

import signal
import sys
import traceback
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import typer

from recall_core import config
from recall_core.records import FloorError, InputError, RecallError

app = typer.Typer(
    help="Measure whether a memory recalls, and whether it keeps quiet when it should.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
fixture_app = typer.Typer(help="Fixtures: check one, print the format.", no_args_is_help=True)
models_app = typer.Typer(help="Models: which there are, fetch, verify.", no_args_is_help=True)
store_app = typer.Typer(help="Stores: build one, ask it, re-embed it.", no_args_is_help=True)
app.add_typer(fixture_app, name="fixture")
app.add_typer(models_app, name="models")
app.add_typer(store_app, name="store")

Embedder = Annotated[str, typer.Option(help="An embedder's name, as `recall models list` gives it.")]
MinScore = Annotated[float | None, typer.Option(help="Absolute gate. Default: recall.toml.")]
Delta = Annotated[float | None, typer.Option(help="Margin gate. Default: recall.toml.")]


class Stopped(BaseException):
    """A signal asked us to end. Nothing on the way may take it for an ordinary failure."""


def main() -> None:
    """Run the command. 0: fine. 1: a floor broken. 2: bad input. 3: the machinery failed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        app()
    except RecallError as error:
        sys.exit(_say(str(error), error.exit_code))
    except OSError as error:
        sys.exit(_say(f"{error.filename or 'a file'}: {error.strerror}", 3))
    except Stopped:
        sys.exit(_say("stopped; nothing half-done was published", 3))
    except Exception as error:
        # Python would end with 1, which here means that a floor was broken.
        traceback.print_exc()
        sys.exit(_say(f"a fault in the workbench: {type(error).__name__}: {error}", 3))


@app.command()
def nightly(
    reports: Annotated[Path | None, typer.Option(help="Where reports go. Default: reports/.")] = None,
    day: Annotated[str | None, typer.Option("--date", help="Date of the report, YYYY-MM-DD.")] = None,
) -> None:
    """Run every configured embedder on the fixture and write the dated report."""
    from recall_core import nightly

    root = config.find_root()
    settings = config.load(root / config.NAME)
    night = nightly.run(root, settings, reports or root / "reports", _day(day), quiet=not sys.stderr.isatty())
    typer.echo(f"report: {night.report}")
    if night.missing:
        raise RecallError("; ".join(night.missing))
    if night.broken:
        raise FloorError("floor broken: " + "; ".join(night.broken))
    typer.echo(f"all {len(settings.floors)} floors hold")


@app.command()
def run(
    fixture: Annotated[Path, typer.Argument(help="A fixture file.")],
    embedder: Embedder = "hash",
    min_score: MinScore = None,
    delta: Delta = None,
    store: Annotated[Literal["memory", "sqlite"], typer.Option(help="Which store to ask.")] = "memory",
    top_k: Annotated[int, typer.Option(min=1, help="The k of recall@k.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Also write the run to this folder.")] = None,
) -> None:
    """Ask every case of a fixture and print what came of it."""
    from recall_core import catalogue, fixtures, gates, lint, pipeline, report, runs

    root = config.find_root()
    settings = config.load(root / config.NAME)
    loaded = fixtures.load(fixture)
    for found in lint.lint(loaded):
        typer.echo(f"{found.level}: {found.case_id}: {found.message}", err=True)
    gate = settings.gate_for(embedder)
    chosen = gates.Gate(
        gate.min_score if min_score is None else min_score, gate.delta if delta is None else delta
    )
    result = pipeline.evaluate(
        loaded,
        catalogue.open_embedder(embedder, root),
        gate=chosen,
        sweep=settings.sweep,
        store=store,
        top_k=top_k,
    )
    for row in report.results_table([result]):
        typer.echo(f"{row[0]:<48} {row[1]}")
    for said in report.sweep_lines(result.margin, "delta"):
        typer.echo(said)
    if out:
        typer.echo(runs.save(result, {}, str(out)))


@fixture_app.command("lint")
def fixture_lint(path: Annotated[Path, typer.Argument(help="A fixture file.")]) -> None:
    """Validate a fixture, then check that it measures recall and not copying."""
    from recall_core import fixtures, lint
    from recall_core.records import FixtureError

    fixture = fixtures.load(path)
    found = lint.lint(fixture)
    for item in found:
        typer.echo(f"{item.level}: {item.case_id}: {item.message}")
    errors = [item for item in found if item.level == "error"]
    typer.echo(
        f"{path}: {len(fixture.cases)} cases, {len(errors)} errors, {len(found) - len(errors)} warnings"
    )
    if errors:
        raise FixtureError(str(path), [f"{item.case_id}: {item.message}" for item in errors])


@fixture_app.command("schema")
def fixture_schema() -> None:
    """Print the JSON Schema of the fixture format."""
    from recall_core import fixtures

    typer.echo(fixtures.json_schema(), nl=False)


@models_app.command("list")
def models_list() -> None:
    """List the models, and whether their files are here."""
    from recall_core import models

    root = config.find_root()
    for entry in models.load_registry(root / "models" / "registry.toml").values():
        states = {check.state for check in models.verify(entry, root / "models")}
        state = "here" if states == {"ok"} else "damaged" if "wrong" in states else "not fetched"
        size = sum(file.bytes for file in entry.files) / 1e6
        typer.echo(f"{entry.name:<32} {state:<12} {entry.dim:>4} dim {size:>7.1f} MB  {entry.licence}")


@models_app.command("pull")
def models_pull(
    names: Annotated[list[str] | None, typer.Argument(help="Default: those recall.toml names.")] = None,
) -> None:
    """Fetch models and check their hashes. What is here already is not fetched again."""
    from recall_core import models

    root = config.find_root()
    registry = models.load_registry(root / "models" / "registry.toml")
    configured = [name for name in config.load(root / config.NAME).embedders if name != "hash"]
    for name in names or configured:
        folder = models.pull(models.entry_named(registry, name), root / "models")
        typer.echo(f"{name}: complete in {folder}")


@models_app.command("verify")
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
        typer.echo(models.identify([models.entry_named(registry, n) for n in names or registry], against))
        return
    bad = []
    for name in names or registry:
        for check in models.verify(models.entry_named(registry, name), root / "models"):
            if check.state == "missing" and not names:
                continue
            typer.echo(f"{name}/{check.name}: {check.state}")
            if check.state != "ok":
                found = f", found {check.found_sha256}" if check.found_sha256 else ""
                bad.append(f"{name}/{check.name} is {check.state}, expected {check.expected_sha256}{found}")
    if bad:
        raise ModelError("; ".join(bad) + "; run `recall models pull`")


@models_app.command("check")
def models_check(
    name: Annotated[str, typer.Argument(help="An embedder's name.")],
    fixture: Annotated[Path | None, typer.Option(help="Whose texts to use. Default: recall.toml.")] = None,
) -> None:
    """Measure what must be true of an embedder: unit rows, the same in any batch, on any thread, again."""
    from recall_core import fixtures, studies
    from recall_core.records import ModelError

    root = config.find_root()
    settings = config.load(root / config.NAME)
    study = studies.Study(fixtures.load(fixture or root / settings.fixture), root, settings)
    found = study.health(name)
    for check in found.itertuples():
        state = "holds" if check.ok else "DOES NOT HOLD"
        typer.echo(f"{check.name:<26} {state:<14} {check.measured}")
    if not found["ok"].all():
        failed = ", ".join(found.loc[~found["ok"].astype(bool), "name"])
        raise ModelError(
            f"{name}: does not hold: {failed}; set batch_invariant = false, or use another model"
        )


@store_app.command("build")
def store_build(
    path: Annotated[Path, typer.Argument(help="The store's file.")],
    fixture: Annotated[Path, typer.Option(help="Take all memories of this fixture.")],
    embedder: Embedder = "hash",
) -> None:
    """Make a store from the memories of a fixture, embedded and ready to ask."""
    from recall_core import catalogue, fixtures, pipeline
    from recall_core.store import SqliteStore

    root = config.find_root()
    memories = list(fixtures.all_memories(fixtures.load(fixture)))
    opened = catalogue.open_embedder(embedder, root)
    store = SqliteStore(path)
    store.add(memories)
    typer.echo(
        f"{path}: {len(memories)} memories, {pipeline.reembed(store, opened)} embedded with {embedder}"
    )


@store_app.command("reembed")
def store_reembed(
    path: Annotated[Path, typer.Argument(help="The store's file.")], embedder: Embedder = "hash"
) -> None:
    """Give every memory a vector of another embedder. Can be stopped and run again."""
    from recall_core import catalogue, pipeline
    from recall_core.store import SqliteStore

    opened = catalogue.open_embedder(embedder, config.find_root())
    typer.echo(
        f"{path}: {pipeline.reembed(SqliteStore(path, create=False), opened)} embedded with {embedder}"
    )


@store_app.command("search")
def store_search(
    path: Annotated[Path, typer.Argument(help="The store's file.")],
    query: Annotated[str, typer.Argument(help="A question.")],
    embedder: Embedder = "hash",
    min_score: MinScore = None,
    delta: Delta = None,
    top_k: Annotated[int, typer.Option(min=1, help="How many to show.")] = 3,
) -> None:
    """Ask a store one question: what comes out, and whether the gate would speak it."""
    from recall_core import catalogue, gates, streams
    from recall_core.store import SqliteStore

    root = config.find_root()
    gate = config.load(root / config.NAME).gate_for(embedder)
    chosen = gates.Gate(
        gate.min_score if min_score is None else min_score, gate.delta if delta is None else delta
    )
    store = SqliteStore(path, create=False)
    opened = catalogue.open_embedder(embedder, root)
    ranking = streams.vector(store, opened.embed_queries([query])[0], opened.fingerprint)
    texts = {memory.id: memory.text for memory in store.memories()}
    for hit in ranking.top(top_k).hits:
        typer.echo(f"{hit.score:.4f}  {hit.id:<20} {texts[hit.id]}")
    typer.echo(gates.explain(ranking, chosen))


def _day(given: str | None) -> date:
    try:
        return date.fromisoformat(given) if given else date.today()
    except ValueError:
        raise InputError(f"--date {given!r} is not a date; write it as 2026-07-31") from None


def _say(message: str, code: int) -> int:
    typer.echo(f"recall: {message}", err=True)
    return code


def _stop(*_: object) -> None:
    raise Stopped
