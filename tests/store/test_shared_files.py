"""Files of other machines: no lookup of a missing name, and no stat older than a second."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbdist.store.logs import FileStat, is_listed


def test_what_a_directory_lists_is_there(tmp_path: Path) -> None:
    before = is_listed(tmp_path / "log")
    (tmp_path / "log").touch()

    assert (before, is_listed(tmp_path / "log")) == (False, True)
    assert not is_listed(tmp_path / "no directory" / "log")


def test_nothing_is_asked_for_by_a_name_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(Path(path).name) or listdir(path))

    assert not is_listed(tmp_path / "1" / "attempt-2" / "log")
    (tmp_path / "1").mkdir()
    assert not is_listed(tmp_path / "1" / "attempt-2" / "log")

    assert listed == ["1", "1"]


def test_a_file_is_opened_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, opened = [5.0], []
    really = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: opened.append(now[0]) or really(path, flags))
    (tmp_path / "log").write_text("a")
    stat = FileStat(tmp_path / "log", clock=lambda: now[0])
    gone = FileStat(tmp_path / "gone", clock=lambda: now[0])

    for now[0] in (5.0, 5.5, 5.9, 6.0, 6.5, 7.1):
        assert stat.look().st_size == 1

    assert opened == [5.0, 6.0, 7.1]
    with pytest.raises(FileNotFoundError):
        gone.look()
