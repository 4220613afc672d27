"""Copying the page's extension to where a user's Jupyter finds it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from nbdist import labextension_install
from nbdist.errors import UsageMistake
from nbdist.labextension_install import WIDGETS, install, install_widgets, installed, jupyter_data

BUILT = Path(labextension_install.__file__).parent / "labextension"

built = pytest.mark.skipif(not (BUILT / "package.json").exists(), reason="the page's side is not built")


@built
def test_what_jupyter_looks_for_is_there(tmp_path: Path) -> None:
    place = install(tmp_path)

    described = json.loads((place / "package.json").read_text())
    assert place == tmp_path / "labextensions/nbdist"
    assert (place / described["jupyterlab"]["_build"]["load"]).is_file()
    assert (place / "schemas/nbdist/notebook.json").is_file()
    assert installed(tmp_path)


@built
def test_an_older_one_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    old = tmp_path / "labextensions/nbdist"
    old.mkdir(parents=True)
    (old / "package.json").write_text("{}")
    (old / "old.js").write_text("")
    assert not installed(tmp_path)

    install(tmp_path)

    assert installed(tmp_path)
    assert not (old / "old.js").exists()
    assert [path.name for path in old.parent.iterdir()] == ["nbdist"]


@built
def test_a_link_of_a_developer_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "checkout"
    target.mkdir()
    (tmp_path / "labextensions").mkdir()
    (tmp_path / "labextensions/nbdist").symlink_to(target)

    place = install(tmp_path)

    assert not place.is_symlink()
    assert list(target.iterdir()) == []


def test_what_draws_widgets_comes_from_this_environment(tmp_path: Path) -> None:
    for name in WIDGETS:
        (tmp_path / "env/share/jupyter/labextensions" / name).mkdir(parents=True)
        (tmp_path / "env/share/jupyter/labextensions" / name / "package.json").write_text(name)

    places = install_widgets(tmp_path / "data", [tmp_path, tmp_path / "env"])

    assert places == [tmp_path / "data/labextensions" / name for name in WIDGETS]
    assert [(place / "package.json").read_text() for place in places] == list(WIDGETS)


def test_where_nothing_draws_widgets_it_is_said_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(UsageMistake, match="pip install jupyterlab_widgets anywidget"):
        install_widgets(tmp_path / "data", [tmp_path])


def test_jupyter_s_own_variable_comes_first() -> None:
    assert jupyter_data({"XDG_DATA_HOME": "/shared", "JUPYTER_DATA_DIR": "/mine"}) == Path("/mine")
    assert jupyter_data({}).name in ("jupyter", "Jupyter")


@built
def test_what_a_page_can_load_stays_small() -> None:
    panel = BUILT.parent / "panel/static"
    files = [*BUILT.glob("static/*.js"), *panel.glob("*.js"), *panel.glob("*.css")]

    compressed = sum(len(gzip.compress(path.read_bytes())) for path in files)

    assert compressed < 300_000
    assert len(gzip.compress((panel / "panel.js").read_bytes())) <= 90_000
