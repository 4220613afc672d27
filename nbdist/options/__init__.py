"""The options of ``%%distributed``, once: for the magic, the command line, completion and the README."""

from nbdist.options.parser import (
    LineParser,
    Options,
    get_ready,
    keyword_words,
    parse,
    parse_keywords,
    parse_words,
)
from nbdist.options.ranks_line import RanksLine, parse_ranks, ranks_help
from nbdist.options.recorded import first_line, program_words, recorded_options
from nbdist.options.table import OPTIONS, Option, help_text, parse_duration, slug
from nbdist.options.typed_line import (
    COMMAND_FLAGS,
    MODULE_FLAGS,
    check_shell,
    instead_of,
    options_first,
    split_line,
    split_program,
)
