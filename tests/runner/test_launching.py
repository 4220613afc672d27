"""Which launcher starts a run: decided once, before its directory is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist import options, runner
from nbdist.runner.launching import ColdLauncher, EngineLauncher, choose_launcher


@pytest.mark.parametrize(
    ("line", "warm", "launcher"),
    [
        pytest.param("-n 2", False, ColdLauncher(("",)), id="cold"),
        pytest.param("-n 2 --on slurm", None, EngineLauncher(None, ("", "")), id="an engine's queue"),
        pytest.param("-n 2 --ray head:8265", None, EngineLauncher(None, ("", "")), id="another engine"),
    ],
)
def test_the_launcher_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, warm: bool | None, launcher: object
) -> None:
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    planned = runner.plan(options.parse(line), cell="pass", cwd=str(tmp_path))

    assert choose_launcher(planned, warm=warm) == launcher
    assert not (tmp_path / "home/runs").exists()


def test_a_run_that_was_to_be_warm_says_why_it_is_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    planned = runner.plan(options.parse("-n 2"), cell="pass", cwd=str(tmp_path))

    launcher = choose_launcher(planned, warm=True)

    assert isinstance(launcher, ColdLauncher)
    assert launcher.notes[0].startswith("the ranks kept ready were not used: this program imports none of")
