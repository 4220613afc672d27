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
from nbdist.options.ranks_line import RanksLine, parse_ranks, ranks_help
from nbdist.options.recorded import first_line, program_words, recorded_options
from nbdist.options.table import OPTIONS, Option, help_text, parse_duration, slug
