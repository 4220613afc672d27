"""A run that could start. The supervisor does not import this module: ``ast`` takes a process a while."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist.model.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Program:
    """What the ranks will run, parsed once: whatever looks at it before the start takes this tree."""

    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, text: str, path: str = "<cell>") -> Program:
        """Raises SyntaxError for what does not compile."""
        with warnings.catch_warnings():
            # the ranks give the same warnings, with the line
            warnings.simplefilter("ignore")
            try:
                tree = ast.parse(text, path)
                # finds what the grammar allows and Python does not, such as return outside a function
                compile(tree, path, "exec", dont_inherit=True)
            except RecursionError:
                # nested this deeply it is left unchecked; a rank may still run it
                tree = ast.Module([], [])
            except ValueError as error:  # a null character, half a surrogate pair
                raise SyntaxError(str(error)) from None
        return cls(text, tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run that could start: its spec, its program (``is_cell``: of the notebook, and no script), the
    environment that its ranks inherit, and notes for the user.

    ``write_inputs`` writes the values of the spec's inputs into a file; None where there are none.

    ``token`` is what other machines prove themselves by that have another home directory, where this one is
    the first and was given none. It is good for this run alone, and in no file.
    """

    spec: RunSpec
    program: Program
    is_cell: bool
    environment: Mapping[str, str]
    notes: tuple[str, ...]
    write_inputs: Callable[[Path], object] | None = None
    token: str = ""

    @property
    def cell(self) -> str | None:
        """The text of the cell; None where the program is a script."""
        return self.program.text if self.is_cell else None
