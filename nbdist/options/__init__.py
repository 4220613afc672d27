"""The options of ``%%distributed``, once: for the magic, the command line, completion and the README."""

from nbdist.options.parser import (
    COMMAND_FLAGS,
    MODULE_FLAGS,
    LineParser,
    Options,
    get_ready,
    instead_of,
    keyword_words,
    parse,
    parse_keywords,
    parse_words,
    split_line,
    split_program,
)
from nbdist.options.ranks import RanksLine, parse_ranks, ranks_help
from nbdist.options.recorded import first_line, program_words, recorded_options
from nbdist.options.table import OPTIONS, Option, help_text, markdown_table, parse_duration, slug

__all__ = [
    "COMMAND_FLAGS",
    "MODULE_FLAGS",
    "OPTIONS",
    "LineParser",
    "Option",
    "Options",
    "RanksLine",
    "first_line",
    "get_ready",
    "help_text",
    "instead_of",
    "keyword_words",
    "markdown_table",
    "parse",
    "parse_duration",
    "parse_keywords",
    "parse_ranks",
    "parse_words",
    "program_words",
    "ranks_help",
    "recorded_options",
    "slug",
    "split_line",
    "split_program",
]
