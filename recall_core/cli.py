"""The `recall` command. Each command is a few lines over the package; errors become exit codes here."""

from __future__ import annotations

import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from recall_core import config
from recall_core.night import commands
from recall_core.records import InputError, RecallError

if TYPE_CHECKING:
    import pandas as pd

    from recall_core.gates import Gate

app = typer.Typer(
    help="Measure whether a memory recalls, and whether it keeps quiet when it should.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
fixture_app = typer.Typer(help="Fixtures: check one, print the format.", no_args_is_help=True)
models_app = typer.Typer(help="Models: which there are, fetch, verify.", no_args_is_help=True)
store_app = typer.Typer(help="Stores: build one, ask it, re-embed it.", no_args_is_help=True)
gate_app = typer.Typer(help="Gates: choose one that keeps a promise.", no_args_is_help=True)
app.add_typer(fixture_app, name="fixture")
app.add_typer(models_app, name="models")
app.add_typer(store_app, name="store")
app.add_typer(commands.baseline_app, name="baseline")
app.command("nightly")(commands.nightly)
app.command("ratchet")(commands.ratchet)
app.add_typer(gate_app, name="gate")

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
def run(
    target: Annotated[Path, typer.Argument(help="A fixture file, or a folder of Markdown pages.")],
    embedder: Embedder = "hash",
    probes: Annotated[Path | None, typer.Option(help="For a folder: the questions and their pages.")] = None,
    observations: Annotated[Path | None, typer.Option(help="For a folder: raw observations, JSONL.")] = None,
    min_score: MinScore = None,
    delta: Delta = None,
    store: Annotated[Literal["memory", "sqlite"], typer.Option(help="Which store to ask.")] = "memory",
    top_k: Annotated[int, typer.Option(min=1, help="The k of recall@k.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Also write the run to this folder.")] = None,
    trec: Annotated[Path | None, typer.Option(help="Also write TREC run and qrels files there.")] = None,
) -> None:
    """Ask every case of a fixture, or every probe of a wiki, and print what came of it."""
    root = config.find_root()
    settings = config.load(root / config.NAME)
    if target.is_dir():
        _run_pages(target, probes, observations, embedder, settings, root, trec)
        return
    from recall_core import catalogue, fixtures, lint, pipeline, runs
    from recall_core.reporting import report

    loaded = fixtures.load(target)
    for found in lint.lint(loaded):
        typer.echo(f"{found.level}: {found.case_id}: {found.message}", err=True)
    result = pipeline.evaluate(
        loaded,
        catalogue.open_embedder(embedder, root),
        gate=_gate(settings, embedder, min_score, delta),
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
    _write_trec(result.rows, trec, embedder)


def _run_pages(
    folder: Path,
    probes: Path | None,
    observations: Path | None,
    embedder: str,
    settings: config.Config,
    root: Path,
    trec: Path | None,
) -> None:
    from recall_core import catalogue, page_study, stats, vault, wiki

    if probes is None:
        raise InputError(f"{folder} is a folder of pages; give its questions with --probes FILE")
    read = vault.read(folder)
    raw = vault.read_observations(observations) if observations else []
    pages = settings.pages
    options = wiki.Options(method=pages.method, k=pages.k, weights=pages.weights) if pages else wiki.Options()
    asked = page_study.asked([*read.pages, *raw], probes, catalogue.open_embedder(embedder, root), options)
    for name, value in page_study.inventory(read, raw, asked).itertuples(index=False):
        typer.echo(f"{name:<30} {value}")
    for row in page_study.modes(asked).itertuples():
        rank = f", MRR {row.mrr:.3f}" if row.n else ""
        typer.echo(f"recall@5, {row.mode:<20} {stats.share(row.hits, row.n)}{rank}")
    for row in page_study.lost(asked).itertuples():
        typer.echo(f"lost: {row.case_id}: {row.query}: wanted {row.expected or 'nothing'}, got {row.top}")
    _write_trec(asked.rows(options), trec, "hybrid")


def _write_trec(rows: pd.DataFrame, folder: Path | None, tag: str) -> None:
    if folder:
        from recall_core import trec

        typer.echo(trec.write(rows, folder, tag))


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
        checks = models.verify(entry, root / "models")
        states = {check.state for check in checks}
        here = "damaged" if "wrong" in states else "unrecorded" if "unrecorded" in states else "not fetched"
        state = "here" if states == {"ok"} else here
        sizes = [(check.expected or check.found) for check in checks]
        size = f"{sum(found.bytes for found in sizes if found) / 1e6:.1f}" if all(sizes) else "?"
        typer.echo(f"{entry.name:<38} {state:<12} {entry.dim:>4} dim {size:>7} MB  {entry.licence}")


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


@models_app.command("check")
def models_check(
    name: Annotated[str, typer.Argument(help="An embedder's name.")],
    fixture: Annotated[Path | None, typer.Option(help="Whose texts to use. Default: recall.toml.")] = None,
) -> None:
    """Measure what must be true of an embedder: unit rows, the same in any batch, on any thread, again."""
    from recall_core import fixtures, health
    from recall_core.records import ModelError
    from recall_core.store import passages

    root = config.find_root()
    settings = config.load(root / config.NAME)
    asked = fixtures.load(fixture or root / settings.fixture)
    texts = [passages(memory)[0] for memory in fixtures.all_memories(asked)]
    queries = [case.query for case in asked.cases]
    found = health.measure(name, root, texts, queries, settings.gate_for(name).delta)
    for check in found:
        state = "holds" if check.ok else "DOES NOT HOLD"
        typer.echo(f"{check.name:<26} {state:<14} {check.measured}")
    failed = ", ".join(check.name for check in found if not check.ok)
    if failed:
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
    chosen = _gate(config.load(root / config.NAME), embedder, min_score, delta)
    store = SqliteStore(path, create=False)
    opened = catalogue.open_embedder(embedder, root)
    ranking = streams.vector(store, opened.embed_queries([query])[0], opened.fingerprint)
    texts = {memory.id: memory.text for memory in store.memories()}
    for hit in ranking.top(top_k).hits:
        typer.echo(f"{hit.score:.4f}  {hit.id:<20} {texts[hit.id]}")
    typer.echo(gates.explain(ranking, chosen))


@gate_app.callback()
def _gates() -> None:
    """Gates: choose one that keeps a promise."""


@gate_app.command("choose")
def gate_choose(
    fixture: Annotated[Path | None, typer.Option(help="Default: data/notes/recall_v2.json.")] = None,
    embedder: Annotated[str | None, typer.Option(help="Default: the first model of recall.toml.")] = None,
    signal: Annotated[str, typer.Option(help="What must be above the threshold.")] = "margin",
    max_false: Annotated[float, typer.Option(help="Promise: at most this share of false recall ...")] = 0.05,
    confidence: Annotated[float, typer.Option(help="... with this confidence.")] = 0.9,
    out: Annotated[Path, typer.Option(help="Where the gate goes, for a daemon to read.")] = Path("gate.json"),
) -> None:
    """Choose the gate that answers most and keeps a promise on false recall, or refuse."""
    from recall_core import catalogue, fixtures
    from recall_core.choosing import gate_file, gate_study

    root = config.find_root()
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}; make it, or name another")
    models = [name for name in config.load(root / config.NAME).embedders if name != "hash"]
    study = gate_study.choose(
        fixtures.load(fixture or root / "data" / "notes" / "recall_v2.json"),
        catalogue.open_cached(embedder or [*models, "hash"][0], root),
        signal=signal,
        max_false=max_false,
        confidence=confidence,
    )
    gate_file.save(study.file, out)
    for said in study.lines():
        typer.echo(said)
    typer.echo(f"saved to {out}")


def _gate(settings: config.Config, embedder: str, min_score: float | None, delta: float | None) -> Gate:
    """The gate the embedder ships with, with what was given on the command line instead."""
    from recall_core.gates import Gate

    shipped = settings.gate_for(embedder)
    return Gate(
        shipped.min_score if min_score is None else min_score, shipped.delta if delta is None else delta
    )


def _say(message: str, code: int) -> int:
    typer.echo(f"recall: {message}", err=True)
    return code


def _stop(*_: object) -> None:
    # Ending in order takes seconds, and a second signal would cut it short.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise Stopped
