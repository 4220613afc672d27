"""The READMEs say what is true of the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import nbdist
from nbdist import options, runner
from nbdist.magics import MAGICS

ROOT = Path(__file__).parent.parent
ENGLISH, CHINESE, REFERENCE = "README.md", "README.zh-CN.md", "docs/reference.md"
ARCHITECTURE = "docs/architecture.md"
HEADS = {"en": "| Option | What it does |", "zh": "| 选项 | 作用 |"}
BOTH = pytest.mark.parametrize("name", [ENGLISH, CHINESE])
LINE_MAGICS = {name for magics in MAGICS for name in magics.magics["line"]}
DOCS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def options_of(text: str) -> str:
    """Return the text between the two markers."""
    _, table, _ = text.split("<!-- options -->")
    return table.strip()


def the_cells(name: str) -> list[tuple[str, str]]:
    """The line and the program of each cell that is shown."""
    return re.findall(r"```python\n%%distributed(.*)\n([\s\S]*?)```", read(name))


def markdown_table(*, rare: bool = False, language: str = "en") -> str:
    """The options as the table of a README; with the ``rare`` ones, of the reference."""
    lines = [HEADS[language], "|---|---|"]
    for option in options.OPTIONS:
        if option.rare and not rare:
            continue
        written = f"{', '.join(option.flags)} {option.metavar}".rstrip()
        # a bare | would end the table's cell
        cells = [cell.replace("|", r"\|") for cell in (f"`{written}`", getattr(option.help, language))]
        lines.append(f"| {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def test_the_options_are_those_of_the_code() -> None:
    assert options_of(read(ENGLISH)) == markdown_table()
    assert options_of(read(CHINESE)) == markdown_table(language="zh")
    assert options_of(read(REFERENCE)) == markdown_table(rare=True)


@BOTH
def test_every_magic_is_named(name: str) -> None:
    missing = [magic for magic in LINE_MAGICS if not re.search(rf"^\| `%{magic}[ `]", read(name), re.M)]

    assert not missing


def test_the_page_completes_every_magic() -> None:
    page = Path("labextension/src/lab/cells/magic_line.ts").read_text(encoding="utf-8")

    assert {name for name in LINE_MAGICS if not re.search(rf"[' ]%{name}[' ]", page)} == set()


@BOTH
def test_every_magic_that_is_named_exists(name: str) -> None:
    assert set(re.findall(r"%(dist_\w+)", read(name))) <= LINE_MAGICS


def test_the_python_names_are_those_that_are_promised() -> None:
    promised = set(nbdist.__all__) - {"__version__", "load_ipython_extension"}

    first_cells = re.findall(r"^\| (`nbdist\.[^|]+) \|", read(REFERENCE), re.M)

    assert set(re.findall(r"`nbdist\.(\w+)", " ".join(first_cells))) == promised


def test_every_package_and_module_has_its_line() -> None:
    tree = next(block for block in read(ARCHITECTURE).split("```") if block.startswith("\nmagics/"))
    there = {
        path.name
        for path in (ROOT / "nbdist").iterdir()
        if (path.is_dir() or path.suffix == ".py")
        and not path.name.startswith(("_", "."))
        # built from the folder of this name beside the package
        and path.name != "labextension"
    }

    named = {word.rstrip("/") for word in re.findall(r"^\S+|(?<=\s)\S+(?:/|\.py)(?=\s)", tree, re.M)}

    assert named == there


@BOTH
def test_a_readme_can_be_read_in_one_sitting(name: str) -> None:
    assert len(read(name).splitlines()) <= 130


def test_both_readmes_say_the_same_in_the_same_lines() -> None:
    shapes = [
        [line[:1] if line[:1] in "#|!-" else bool(line) for line in read(name).splitlines()]
        for name in (ENGLISH, CHINESE)
    ]

    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("page", [ENGLISH, CHINESE, "CHANGELOG.md", "CONTRIBUTING.md", *DOCS])
def test_every_link_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", read(page))

    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]


def test_both_readmes_show_the_same_cells() -> None:
    assert the_cells(CHINESE) == the_cells(ENGLISH)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize(("line", "cell"), the_cells(ENGLISH), ids=["the first", "a training"])
def test_the_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, cell: str) -> None:
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    handle = runner.start(runner.plan(options.parse(line), cell=cell, cwd=str(tmp_path)))

    status = handle.wait(60)

    # whatever came of it, nothing of it is left behind
    handle.stop()
    assert status == "finished", handle.logs(0) + handle.logs(1)
    assert handle.metrics().get("loss", 0.0) < 0.01
    assert "print" not in cell or handle.logs(1) == "1 of 2\n"
