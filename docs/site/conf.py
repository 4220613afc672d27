"""The site: the repository's own pages, the course with its outputs, and the docstrings.

``make docs`` builds it. The source folder is the repository: a link leads where it leads in a checkout.
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from typing import Any, ClassVar

import nbformat
from docutils.nodes import document
from pygments.lexer import inherit
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

ROOT = Path(__file__).parents[2]
EXECUTED = ROOT / "build" / "course"
"""Where ``make course`` saves the notebooks with their outputs."""
HAN = "\u4e00-\u9fff"
"""Chinese characters, as a range of a regular expression."""

project = "nbdist"
release = importlib.metadata.version("nbdist")
extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = [
    *("README*.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/*.md"),
    *("docs/**.md", "notebooks/*.ipynb"),
]
exclude_patterns = [".*", "build", "dist", "labextension", "nbdist", "tests", "**/.*"]

html_theme = "furo"
html_title = f"nbdist {release}"
html_extra_path = ["index.html"]
html_static_path = ["static"]
html_js_files = [("theme.js", {"defer": "defer"})]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
templates_path: list[str] = []

myst_heading_anchors = 4
nb_execution_mode = "off"
# the lexer of IPython's tracebacks knows no others
nb_render_error_lexer = "text"
# a widget needs its kernel, and a manager from elsewhere; what the saved notebook has below it needs none
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
autodoc_typehints = "signature"
html_search_language = "en-zh"
autodoc_member_order = "bysource"


class EnglishAndChinese(SearchEnglish):
    """Both languages in one index. Chinese has no spaces: each two characters side by side are a word of the
    index, and of a query."""

    lang = "en-zh"
    js_splitter_code = r"""
const HAN = /\p{Script=Han}+/u;
var splitQuery = query =>
  (query.match(/\p{Script=Han}+|(?:(?!\p{Script=Han})[\p{L}\p{N}_])+/gu) ?? []).flatMap(word =>
    HAN.test(word) && word.length > 1 ? [...word.slice(1)].map((last, at) => word[at] + last) : [word],
  );
"""

    def split(self, input: str) -> list[str]:
        words = re.findall(rf"[{HAN}]+|[^\W{HAN}]+", input)
        return [piece for word in words for piece in pairs(word)]

    def word_filter(self, word: str) -> bool:
        return word[:1] >= HAN[0] or super().word_filter(word)


def pairs(word: str) -> list[str]:
    if len(word) < 2 or not HAN[0] <= word[0] <= HAN[-1]:
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]


class CellLexer(PythonLexer):
    """Python, and lines for IPython, whose own lexer gives what is below a cell's magic no colours."""

    tokens: ClassVar[dict[str, list[Any]]] = {"root": [(r"^[ \t]*[%!].*$", Keyword.Namespace), inherit]}


def put_outputs_in(_app: Sphinx, page: str, source: list[str]) -> None:
    """Give each cell of the course the output that the same cell had when ``make course`` ran it."""
    if not page.startswith("notebooks/"):
        return
    executed = EXECUTED / f"{Path(page).name}.ipynb"
    if not executed.exists():
        print(f"*** make course has not run {page}: the site shows it WITHOUT its outputs ***")
        return
    # whose machine that was does not matter
    ran = executed.read_text(encoding="utf-8").replace(str(ROOT), "/home/ada/nbdist")
    outputs = {cell.source: cell.get("outputs", []) for cell in nbformat.reads(ran, as_version=4).cells}
    notebook = nbformat.reads(source[0], as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            # VisualDL was on the machine that ran the cell, and has gone
            cell.outputs = [each for each in outputs.get(cell.source, []) if "//127.0.0.1" not in str(each)]
    source[0] = nbformat.writes(notebook)


def leave_as_text(app: Sphinx, tree: document) -> None:
    """A link to a folder leads somewhere in the repository, and nowhere here."""
    for link in list(tree.findall(pending_xref)):
        target = ROOT / Path(app.env.docname).parent / link["reftarget"]
        if link["reftype"] == "myst" and target.is_dir():
            link.replace_self(link.children)


def name_the_language(
    _app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object
) -> None:
    context["language"] = "zh-CN" if page.endswith(".zh-CN") else "en"


def setup(app: Sphinx) -> None:
    for name in ("python", "ipython3"):
        app.add_lexer(name, CellLexer)
    app.add_search_language(EnglishAndChinese)
    app.connect("source-read", put_outputs_in, priority=100)
    app.connect("doctree-read", leave_as_text)
    app.connect("html-page-context", name_the_language)
