"""A line as its words, and the words of a line magic or a command as its arguments."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from nbdist.errors import UsageMistake
from nbdist.privacy import masked_text


class LineParser(argparse.ArgumentParser):
    """The arguments of a line magic or a command; a mistake is answered with how it is written."""

    def __init__(self, usage: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._written = usage

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        for word in args or ():
            if "\0" in word:
                self.error(f"a null character stands in {word!r:.80}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageMistake(f"{message}: write  {self._written}")


def split_line(line: str) -> list[str]:
    """The words of a line as a shell reads them, without a comment behind. Raises UsageMistake."""
    if "\0" in line:
        raise UsageMistake(f"a null character stands in {line.strip()!r:.80}: take it out")
    try:
        return shlex.split(_without_comment(line))
    except ValueError as error:
        raise UsageMistake(
            f'{masked_text(line.strip())!r}: {error}; quote a value like  --args "--lr 0.1"'
        ) from None


def _without_comment(line: str) -> str:
    """``line`` up to a ``#`` that begins a word outside quotes."""
    quote, before = "", " "
    for at, character in enumerate(line):
        if before == "\\" and quote != "'":
            before = ""
            continue
        if not quote and character == "#" and before.isspace():
            return line[:at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        before = character
    return line
