"""The options of ``%%distributed``, once: for the magic, the command line, completion and the README."""

from nbdist.options.line import LineParser, split_line
from nbdist.options.listing import help_text, markdown_table
from nbdist.options.options import Options
from nbdist.options.parser import get_ready, parse, parse_words
from nbdist.options.program import COMMAND_FLAGS, MODULE_FLAGS, instead_of, split_program
from nbdist.options.table import OPTIONS, Option
from nbdist.options.values import parse_duration, slug

__all__ = [
    "COMMAND_FLAGS",
    "MODULE_FLAGS",
    "OPTIONS",
    "LineParser",
    "Option",
    "Options",
    "get_ready",
    "help_text",
    "instead_of",
    "markdown_table",
    "parse",
    "parse_duration",
    "parse_words",
    "slug",
    "split_line",
    "split_program",
]
