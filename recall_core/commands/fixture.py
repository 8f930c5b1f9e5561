"""`recall fixture`: check one, print the format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Fixtures: check one, print the format.", no_args_is_help=True)


@app.command("lint")
def fixture_lint(path: Annotated[Path, typer.Argument(help="A fixture file.")]) -> None:
    """Validate a fixture, then check that it measures recall and not copying."""
    from recall_core import fixtures, lint
    from recall_core.records import FixtureError

    fixture = fixtures.load(path)
    found = lint.lint(fixture)
    for said in fixtures.remarks(fixture):
        typer.echo(f"note: {said}")
    for item in found:
        typer.echo(f"{item.level}: {item.case_id}: {item.message}")
    errors = [item for item in found if item.level == "error"]
    typer.echo(
        f"{path}: {len(fixture.cases)} cases, {len(errors)} errors, {len(found) - len(errors)} warnings"
    )
    if errors:
        raise FixtureError(str(path), [f"{item.case_id}: {item.message}" for item in errors])


@app.command("schema")
def fixture_schema() -> None:
    """Print the JSON Schema of the fixture format."""
    from recall_core import fixtures

    typer.echo(fixtures.json_schema(), nl=False)
