"""The pages can be typed as they stand: Python compiles, and nbdist takes each line that is for it.

The cells of the READMEs are run by ``test_readme.py``, those of the course by ``tests/notebooks``.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from nbdist import options, verbs
from nbdist.cli.commands import AUTOLOAD, COMMANDS, MCP
from nbdist.options import parse_words, split_program
from nbdist.options.ranks_line import parse_ranks
from nbdist.verbs.verb import NOTEBOOK, TERMINAL, Frontend, Verb
from tests.conftest import PROMISES
from tests.test_readme import DOCS, LINE_MAGICS, ROOT, read

PAGES = [
    "README.md",
    "README.zh-CN.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "benchmarks/diagnosis-score.md",
    "labextension/README.md",
    "tests/README.md",
]
PAGES += DOCS
BY_NAME = {verb.name: verb for verb in (*vars(verbs).values(), AUTOLOAD, MCP) if isinstance(verb, Verb)}


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Yield fenced and indented blocks: lines that a shell takes, or a cell."""
    fence = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
    text = read(page)
    for language, inside in fence.findall(text):
        yield Block(page, language, inside)
    for indented in re.findall(r"(?<=\n\n)(?: {4}\S.*\n)+", fence.sub("", text)):
        inside = re.sub(r"^ {4}", "", indented, flags=re.M)
        yield Block(page, "python" if inside.startswith("%") else "sh", inside)


BLOCKS = [block for page in PAGES for block in blocks(page)]
CELLS = [block for block in BLOCKS if block.language == "python"]
SHELL = [block for block in BLOCKS if block.language == "sh"]


def commands(text: str) -> list[list[str]]:
    """The words of each command of nbdist: behind ``nbdist``, up to a pipe, a bracket or a comment."""
    # what another command prints there
    lines = [re.sub(r"\$\(tail[^)]*\)", "0", re.sub(r"\s#.*", "", line)) for line in text.splitlines()]
    found = [match for line in lines for match in re.findall(r"(?<![\w\"/-])nbdist ([a-z][^|>;)]*)", line)]
    return [shlex.split(words) for words in found]


def is_taken(name: str, words: list[str], prefix: str) -> None:
    """Raises UsageMistake, or KeyError for a name that there is not."""
    if name == "run" and prefix == TERMINAL:
        parse_words([word for word in split_program(words)[0] if word != "--json"])
    elif name in BY_NAME:
        nothing_done: Any = replace(BY_NAME[name], act=lambda *_, **__: None)
        nothing_done(words, Frontend(prefix, say=print))
    else:
        assert name in (COMMANDS if prefix == TERMINAL else LINE_MAGICS)


@pytest.mark.parametrize("block", CELLS, ids=lambda block: f"{block.page}: {block.text.splitlines()[0]}")
def test_a_cell_can_be_typed(block: Block) -> None:
    head, _, body = block.text.partition("\n")
    line = re.match(r"%%(distributed|ranks?)\b(.*)", head)
    for magic, words in re.findall(r"^%%?(dist\w*)\b(.*)", block.text, re.M):
        if magic == "distributed":
            options.parse(words)
        else:
            is_taken(magic.removeprefix("dist_"), shlex.split(words, comments=True), NOTEBOOK)
    if line is not None and line[1] != "distributed":
        parse_ranks(line[2])

    program = body if line is not None else re.sub(r"^%%.*", "", block.text, flags=re.M)
    ast.parse(TransformerManager().transform_cell(program))


@pytest.mark.parametrize("block", SHELL, ids=lambda block: f"{block.page}: {block.text.splitlines()[0]}")
def test_a_command_is_one_that_nbdist_takes(block: Block) -> None:
    for name, *words in commands(block.text):
        is_taken(name, words, TERMINAL)


def test_the_pages_show_commands_and_cells() -> None:
    """Otherwise the tests above would have nothing to look at."""
    assert len(CELLS) >= 9
    assert len([words for block in SHELL for words in commands(block.text)]) >= 12


def heads(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_a_link_to_a_heading_finds_it(page: str) -> None:
    links = re.findall(r"\]\(((?!https?:)[^)#]*)#([^)]+)\)", read(page))

    found = [(ROOT / page).parent / path if path else ROOT / page for path, _ in links]
    missing = [name for where, (_, name) in zip(found, links, strict=True) if name not in heads(where)]
    assert not missing


def named_tests(page: str) -> list[tuple[str, str]]:
    """File and function, as ``tests/…/test_x.py::test_y``; no function where the file alone is named."""
    return re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", read(page))


@pytest.mark.parametrize("page", [page for page in PAGES if named_tests(page)])
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    missing = [
        f"{path}::{name}"
        for path, name in named_tests(page)
        if not (ROOT / path).is_file() or not re.search(rf"def {name}\b", (ROOT / path).read_text())
    ]

    assert not missing


def test_the_promises_name_their_tests() -> None:
    """Otherwise the test above would have nothing to look at."""
    named = named_tests("docs/reliability.md")

    assert len(named) >= 20
    assert all(path.split("/")[-1].startswith("test_") for path, _ in named)


FILE = re.compile(r"`([\w.-]+/[\w./-]+\.(?:py|toml|tsx?|css|ipynb))`")
MODULE = re.compile(r"`(?:nbdist\.)?(\w+)\.(?!toml`|py`)(\w+)[`(.]")
PARTS = (
    "",
    "nbdist/",
    "nbdist/diagnosis/",
    "labextension/",
    "labextension/src/",
    "tests/",
    "docs/",
    "benchmarks/",
)


def texts() -> Iterator[tuple[str, str]]:
    """Yield each page, and each module with its docstrings, as a name and a text."""
    yield from ((page, read(page)) for page in PAGES)
    for path in sorted((ROOT / "nbdist").rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docstrings = (ast.get_docstring(node) for node in nodes if isinstance(node, kinds))
        yield str(path.relative_to(ROOT)), "\n".join(filter(None, docstrings)).replace("``", "`")


def is_there(package: str, name: str) -> bool:
    """Tell whether a module of this package, or a name in one of its modules, is called so."""
    folder = ROOT / "nbdist" / package
    defined = re.compile(rf"\b(?:def|class|import) {name}\b|^\s*(?:self\.)?{name}\b", re.M)
    return (folder / name).is_dir() or any(
        path.stem == name or defined.search(path.read_text()) for path in folder.rglob("*.py")
    )


def test_every_file_and_module_that_a_text_names_is_there() -> None:
    packages = {path.name for path in (ROOT / "nbdist").iterdir() if (path / "__init__.py").exists()}
    tops = {path.name for part in PARTS for path in (ROOT / part).iterdir() if path.is_dir()}

    missing = [
        (text, name)
        for text, body in texts()
        for name in FILE.findall(body)
        if name.split("/")[0] in tops and not any((ROOT / part / name).exists() for part in PARTS)
    ] + [
        (text, f"{package}.{name}")
        for text, body in texts()
        for package, name in MODULE.findall(body)
        if package in packages and not is_there(package, name)
    ]
    assert not missing


OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
# of the examples' programs; of pip, jupyter, salloc, scancel; rejected in a decision
OTHERS = {"--lr", "--fast", "--flag", "--api-key", "--password"}
OTHERS |= {"--target", "--data-dir", "--no-shell", "--signal", "--token"}


def options_of_nbdist() -> set[str]:
    """Return the options that a table or a parser here has, and those of other launchers that it reads."""
    files = [path for part in ("nbdist", "benchmarks") for path in (ROOT / part).rglob("*.py")]
    strings = (
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    tables = (path.read_text(encoding="utf-8") for path in (ROOT / "nbdist").rglob("*.toml"))
    there = {text for text in strings if OPTION.fullmatch(text)}.union(*map(OPTION.findall, tables))
    return there | {option.replace("_", "-") for option in there}


def test_every_option_that_a_text_names_is_there() -> None:
    known = options_of_nbdist() | OTHERS

    missing = [
        (text, option)
        for text, body in texts()
        for code in re.findall(r"`([^`\n]+)`", body)
        for option in OPTION.findall(code)
        if option not in known
    ]
    assert len(known) > 80
    assert not missing


def test_the_site_leads_to_every_page() -> None:
    leads = re.findall(r"^(?!:)([\w./*\[\]-]+|.* <(.+)>)$", read("docs/index.md"), re.M)
    listed = [named or path for path, named in leads]

    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} - {"docs/index.md"}
    found = {str(path.relative_to(ROOT)) for name in listed for path in (ROOT / "docs").glob(f"{name}.md")}
    assert pages <= found


def test_each_promise_has_a_test() -> None:
    files = {name: place.partition("::") for name, place in PROMISES.items()}

    missing = [
        name
        for name, (path, _, test) in files.items()
        if f"def {test.partition('[')[0]}(" not in read(f"tests/{path}")
    ]
    assert len(files) >= 20
    assert not missing
