"""What the README tells a newcomer to type works, and every command is told of."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from recall_core import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.S)
    for line in block.splitlines()
    if line.strip()
]


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("make")])
def test_make_knows_its_target(command: str) -> None:
    subprocess.run([*shlex.split(command), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.model
def test_the_recall_commands_run_in_the_order_they_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [line for line in COMMANDS if line.startswith("recall")]
    assert len(told) >= 7
    monkeypatch.chdir(ROOT)
    for line in told:
        arguments = shlex.split(line.replace("/tmp/", f"{tmp_path}/"))
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code in (0, None), line


def test_every_command_is_in_the_readme() -> None:
    groups = {"": cli.app, **{f"{group.name} ": group.typer_instance for group in cli.app.registered_groups}}
    for prefix, group in groups.items():
        for command in group.registered_commands:
            name = command.name or command.callback.__name__
            assert f"recall {prefix}{name}" in README, f"recall {prefix}{name} is not in the README"


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M):
        assert f"make {target}" in shown
