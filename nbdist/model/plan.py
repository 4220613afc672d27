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
    """The program of the ranks, parsed once: whatever looks at it before the start takes this tree."""

    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, text: str, path: str = "<cell>") -> Program:
        """Parse it. Raises SyntaxError for code that does not compile."""
        with warnings.catch_warnings():
            # the ranks print the same warnings, with the line
            warnings.simplefilter("ignore")
            try:
                tree = ast.parse(text, path)
                # catches what the grammar allows, such as return outside a function
                compile(tree, path, "exec", dont_inherit=True)
            except RecursionError:
                # too deeply nested to check; a rank may still run it
                tree = ast.Module([], [])
            except ValueError as error:  # a null character, half a surrogate pair
                raise SyntaxError(str(error)) from None
        return cls(text, tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run that could start. ``is_cell``: the program is no script. Ranks inherit ``environment``, users
    read ``notes``. ``write_inputs`` writes the inputs' values into a file; None without inputs. ``token``
    proves machines with another home directory to this one, for this run alone; no file has it. ``pushed``
    names the inputs, for users without a panel that shows them."""

    spec: RunSpec
    program: Program
    is_cell: bool
    environment: Mapping[str, str]
    notes: tuple[str, ...]
    write_inputs: Callable[[Path], object] | None = None
    token: str = ""
    pushed: str = ""

    @property
    def cell(self) -> str | None:
        """Return the text of the cell; None where the program is a script."""
        return self.program.text if self.is_cell else None
