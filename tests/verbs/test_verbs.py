"""The verbs as users type them, in a notebook and in a terminal: their help, and messages about mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nbdist import verbs
from nbdist.cli.commands import COMMANDS
from nbdist.errors import UsageMistake
from nbdist.magics.line_magics import VerbMagics
from nbdist.model import RunState
from nbdist.verbs.verb import NOTEBOOK, TERMINAL, Frontend, Verb
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, a_spec, errored, exited, run_ended

# those of a notebook
VERBS = [
    verb
    for verb in vars(verbs).values()
    if isinstance(verb, Verb) and verb not in (verbs.WAIT, verbs.METRICS)
]
CELL, SHELL = Frontend(NOTEBOOK, print), Frontend(TERMINAL, print)
PLACES = pytest.mark.parametrize("frontend", [CELL, SHELL], ids=["in a notebook", "in a terminal"])


@PLACES
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_the_help_of_a_verb_is_written_as_it_is_typed_there(verb: Verb[Any], frontend: Frontend) -> None:
    text = verb.help(frontend.prefix)

    assert text.startswith(f"{frontend.prefix}{verb.name} ")
    assert max(map(len, text.splitlines())) <= 105
    other = TERMINAL if frontend is CELL else NOTEBOOK
    assert not [each for each in VERBS if f"{other}{each.name}" in text]
    forms = {each.form for each in verb.arguments if each.only in ("", frontend.prefix) and each.help}
    assert forms <= set(re.findall(r"^  (.+?)(?:  |$)", text, re.M))


@pytest.mark.parametrize("verb", [verbs.WAIT, verbs.METRICS], ids=lambda verb: verb.name)
def test_what_only_a_terminal_has_says_how_it_is_typed_there(verb: Verb[Any]) -> None:
    text = verb.help(TERMINAL)

    assert text.startswith(f"nbdist {verb.name} [RUN")
    assert max(map(len, text.splitlines())) <= 105
    assert verb.name in COMMANDS


def test_every_verb_has_its_magic_and_every_one_but_that_of_a_kernel_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    magics = VerbMagics()

    for verb in VERBS:
        magic = getattr(magics, f"dist_{verb.name}")
        magic("--help")
        assert magic.__doc__ == capsys.readouterr().out.rstrip("\n") == verb.help(NOTEBOOK)
    assert {f"dist_{verb.name}" for verb in VERBS} == set(VerbMagics.magics["line"])
    assert {verb.name for verb in VERBS if verb.name not in COMMANDS} == {"warm"}


def test_an_explanation_stands_below_its_cell(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = WrittenRun(home).happened(*STARTED).raised(1, "ValueError", "no such file")
    written.happened(errored(1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))

    VerbMagics().dist_explain("lenet")

    assert capsys.readouterr().out.splitlines()[1:3] == [
        "rank 1 failed first: ValueError",
        "ValueError: no such file",
    ]


def test_a_report_to_copy_stands_below_its_cell(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = WrittenRun(home).happened(*STARTED).raised(1, "ValueError", "no such file")
    written.happened(errored(1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))

    VerbMagics().dist_explain("--copy lenet")

    assert capsys.readouterr().out.splitlines()[0] == "nbdist report of lenet-k3f9"


def test_runs_are_compared_below_their_cell(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    WrittenRun(home).recorded(0, loss=0.5)
    WrittenRun(home, a_spec(run_id="20261120-141503-other-m2a1", retries=2)).recorded(0, loss=0.25)

    VerbMagics().dist_compare("lenet other --step 0")

    shown = capsys.readouterr().out
    assert "at step 0" in shown
    assert "<th>--retries</th><td>0</td><td>2</td>" in shown


@PLACES
@pytest.mark.parametrize(
    ("verb", "words", "expected"),
    [
        pytest.param(verbs.STOP, [], "no run to stop: see the latest with  {}status", id="nothing to stop"),
        pytest.param(verbs.STOP, ["lenet"], "has already ended: finished", id="it has ended"),
        pytest.param(
            verbs.STOP,
            ["lenet", "--all"],
            "--all is not allowed with RUN: write  {}stop [RUN | --all]",
            id="one and all",
        ),
        pytest.param(verbs.LOGS, ["other"], "no run other: the latest are lenet-", id="no such run"),
        pytest.param(verbs.LOGS, ["--rank", "7"], "has no rank 7: it has 0 to 1", id="no such rank"),
        pytest.param(verbs.LOGS, ["--rank", "x"], "write  {}logs [RUN] [--rank R]", id="no number"),
        pytest.param(verbs.LOGS, ["--grep", "("], "is no regular expression", id="no pattern"),
        pytest.param(verbs.LOGS, ["--tail", "-1"], "--tail", id="no number of lines"),
        pytest.param(verbs.STATUS, ["--yaml"], "write  {}status [RUN …]", id="unknown option"),
        pytest.param(verbs.ATTACH, ["a", "b"], "write  {}attach [RUN]", id="one too many"),
        pytest.param(
            verbs.BOARD,
            ["--export", "a.html", "--stop"],
            "--stop is not allowed with --export FILE.html: write  {}board [RUN …] [--export",
            id="two forms at once",
        ),
        pytest.param(verbs.WARM, ["0"], "warm 0: write  {}warm [N|auto|off]", id="no ranks"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_type_there(
    home: Path, verb: Verb[Any], words: list[str], expected: str, frontend: Frontend
) -> None:
    WrittenRun(home).happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))

    with pytest.raises(UsageMistake) as mistake:
        verb(words, frontend)

    assert expected.format(frontend.prefix) in str(mistake.value)
    assert frontend is CELL or NOTEBOOK not in str(mistake.value)
    assert "\n" not in str(mistake.value)


@pytest.mark.parametrize("words", [["--json"], ["--watch"]], ids=lambda words: words[0])
def test_what_only_a_terminal_shows_is_no_argument_of_a_magic(home: Path, words: list[str]) -> None:
    assert verbs.STATUS(words, SHELL).directories() == ()

    with pytest.raises(UsageMistake, match=r"write  %dist_status \[RUN …\]$"):
        verbs.STATUS(words, CELL)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--nodes", "2"], "--nodes is about a cluster: add  --on slurm"),
        (["--ray", "http://head:8265"], "add  --on ray"),
        (["--on", "pbs"], "is no engine"),
        (["--on", "slurm", "--nodes", "zero"], "write a number of nodes"),
        (["--on", "slurm", "--wait", "soon"], "--wait soon: write a time"),
        (["--on", "slurm", "--slurm", "partition"], "write options of sbatch"),
        (["--on", "slurm", "--smoke"], "--smoke and --fix are about this machine: leave --on out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_cluster_that_cannot_be_looked_at_says_what_to_write(words: list[str], expected: str) -> None:
    with pytest.raises(UsageMistake, match=re.escape(expected)):
        verbs.DOCTOR(words, SHELL)
