"""The directory of the runs, and the language on the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist import config

MOUNTS = """\
overlay / overlay rw 0 0
proc /proc proc rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sda1 /home/ada/local ext4 rw 0 0
/dev/sdb1 /mnt/two\\040words xfs rw 0 0
torn
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param("/var/lib", "overlay", id="the root"),
        pytest.param("/home/ada/.local/state", "nfs4", id="below a mount"),
        pytest.param("/home", "nfs4", id="the mount itself"),
        pytest.param("/homes/ada", "overlay", id="a name that only begins alike"),
        pytest.param("/home/ada/local/state", "ext4", id="a mount on a mount"),
        pytest.param("/mnt/two words/x", "xfs", id="a mount with a space"),
    ],
)
def test_the_filesystem_of_a_path_is_the_nearest_mount(path: str, kind: str) -> None:
    assert config.filesystem_of(Path(path), MOUNTS) == kind


def test_without_mounts_the_filesystem_is_not_known() -> None:
    assert config.filesystem_of(Path("/home"), "") == ""


def test_the_chosen_home_is_taken_as_it_is() -> None:
    assert config.home({"NBDIST_HOME": "/data/nbdist", "XDG_STATE_HOME": "/state"}) == Path("/data/nbdist")


def test_the_chosen_home_may_be_below_the_users() -> None:
    assert config.home({"NBDIST_HOME": "~/runs"}) == Path("~/runs").expanduser()


def test_without_a_choice_runs_lie_in_the_state_directory(tmp_path: Path) -> None:
    assert config.home({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "nbdist"


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        pytest.param({"NBDIST_LANG": "zh"}, "zh", id="chosen"),
        pytest.param({"NBDIST_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en", id="chosen against the system"),
        pytest.param({"LANG": "zh_CN.UTF-8"}, "zh", id="the system's"),
        pytest.param({"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en", id="one for all"),
        pytest.param({"LANG": "C"}, "en", id="a system without a language"),
        pytest.param({"LANG": "de_DE.UTF-8"}, "en", id="a language that is not here"),
    ],
)
def test_the_language_is_the_users(environ: dict[str, str], language: str) -> None:
    assert config.language(environ) == language
