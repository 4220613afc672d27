"""What a report says there is where a file is missing."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbdist.worker.failure.folders import folders


def found(call: Callable[[], object]) -> list[object]:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whichever it is
        call()
    return list(folders(raised.value, raised.value.__traceback__))


def reads(path: str | Path) -> str:
    return Path(path).read_text()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of data, beside which the program runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "images").mkdir(parents=True)
    for name in ("train.csv", "test.csv", "Labels.csv", ".hidden"):
        (tmp_path / "data" / name).write_text("")
    return tmp_path / "data"


def test_the_last_folder_that_is_there_is_told_with_the_nearest_name_first(data: Path) -> None:
    names = ("train.csv", "test.csv", "Labels.csv", "images/")

    assert found(lambda: reads("data/trains.csv")) == [("data/trains.csv", str(data), names, 4)]
    missing = "data/image/train/1.png"
    assert found(lambda: reads(missing)) == [
        (missing, str(data), ("images/", "Labels.csv", "test.csv", "train.csv"), 4)
    ]


def test_a_path_may_be_no_text(data: Path) -> None:
    one = found(lambda: os.listdir(pathlib.Path("data") / "test"))

    assert [(path, folder) for path, folder, *_ in one] == [("data/test", str(data))]  # type: ignore[misc]


def test_of_many_names_a_few_are_told_and_all_are_counted(data: Path) -> None:
    for number in range(50):
        (data / f"{number}.png").write_text("")

    ((_, _, names, count),) = found(lambda: reads(data / "51.png"))  # type: ignore[misc]

    assert len(names) == 6
    assert count == 54


def asks_for(path: str) -> None:
    raise RuntimeError("could not find it", path)


def raises(error: Exception) -> None:
    raise error


@pytest.mark.usefixtures("data")
def test_a_path_in_the_words_of_an_error_or_in_its_line_counts() -> None:
    assert found(lambda: raises(ValueError("file 'data/valid.csv' does not exist")))
    assert found(lambda: asks_for("data/valid.csv"))
    assert found(lambda: raises(ValueError("'data/valid.csv' has too few columns"))) == []
    assert found(lambda: raises(KeyError("data/valid.csv not found"))) == []


@pytest.mark.usefixtures("data")
def test_what_is_no_missing_file_is_not_told() -> None:
    assert found(lambda: subprocess.run(["no-such-program"], check=False)) == []
    assert found(lambda: exec(compile("x = (", "gone.py", "exec"))) == []
    assert found(lambda: raises(PermissionError(13, "Permission denied", "data/none.csv"))) == []
    assert found(lambda: raises(OSError(28, "No space left on device", "data/none.csv"))) == []
    assert found(lambda: reads("data/train.csv/1")) != []


@pytest.mark.usefixtures("data")
def test_nothing_of_the_program_runs_and_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(ValueError):
        @property
        def filename(self) -> str:
            raise SystemExit

    class Other(FileNotFoundError):
        @property
        def filename(self) -> str:  # type: ignore[override]
            raise SystemExit

        @filename.setter
        def filename(self, value: str) -> None: ...

    assert found(lambda: raises(Mine("no file"))) == []
    assert found(lambda: raises(Other(2, "No such file", "data/none.csv"))) != []
    assert found(lambda: raises(FileNotFoundError(2, "No such file", "data/\0.csv"))) != []
    assert found(lambda: raises(FileNotFoundError(2, "No such file", 3))) == []
    assert folders(FileNotFoundError("no file"), None) == []

    gone = Path("gone")
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone_to = os.getcwd()
    os.rmdir(gone_to)
    assert found(lambda: reads("none.csv")) == []


def test_of_a_large_folder_only_what_is_like_it_is_told(data: Path) -> None:
    for number in range(50):
        (data / f"{number}.png").write_text("")

    ((_, _, names, count),) = found(lambda: reads(data / "trian.csv"))  # type: ignore[misc]

    assert names[0] == "train.csv"
    assert not [name for name in names if name.endswith(".png")]
    assert count == 54
    assert found(lambda: reads(data / "weights")) == []


def test_a_path_that_stands_in_an_error_without_quotes_counts(data: Path) -> None:
    def fails() -> None:
        raise ValueError(f"The path ({data}/model.pt) to load does not exist.")

    ((path, folder, _, count),) = found(fails)

    assert (path, folder, count) == (f"{data}/model.pt", str(data), 4)
