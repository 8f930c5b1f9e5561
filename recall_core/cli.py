"""The `recall` command: its groups are in `commands/`, and errors become exit codes here."""

from __future__ import annotations

import signal
import sys
import traceback

import typer

from recall_core.commands import ask, fixture, gate, models, night, run, store
from recall_core.records import RecallError

app = typer.Typer(
    help="Measure whether a memory recalls, and whether it keeps quiet when it should.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("nightly")(night.nightly)
app.command("ratchet")(night.ratchet)
app.command("run")(run.run)
app.command("ask")(ask.ask)
app.add_typer(fixture.app, name="fixture")
app.add_typer(models.app, name="models")
app.add_typer(store.app, name="store")
app.add_typer(night.baseline_app, name="baseline")
app.add_typer(gate.app, name="gate")


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


def _say(message: str, code: int) -> int:
    typer.echo(f"recall: {message}", err=True)
    return code


def _stop(*_: object) -> None:
    # Ending in order takes seconds, and a second signal would cut it short.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise Stopped
