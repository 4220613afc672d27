"""Where a call or a name stands in a program, and so whether every rank gets there."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node stands. ``always``: every rank gets there. ``conditions`` are the tests of the ``if``
    statements and expressions around it, ``attempted`` whether a ``try`` with handlers is,
    ``expected`` whether that ``try`` names NameError, ``function`` the function it is in."""

    always: bool = True
    conditions: tuple[ast.expr, ...] = ()
    attempted: bool = False
    expected: bool = False
    function: str = ""

    @property
    def plain(self) -> bool:
        """Whether it runs whenever its function does: no condition and no ``try`` around it."""
        return not self.conditions and not self.attempted


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call. ``name`` is the dotted name of what is called, imports resolved (empty where it has none),
    ``method`` its last part."""

    node: ast.Call
    name: str
    method: str
    place: Place

    @property
    def line(self) -> int:
        return self.node.lineno

    def argument(self, name: str, position: int | None = None) -> ast.expr | None:
        """What is passed for a parameter, by its name or its position."""
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return keyword.value
        if position is not None and position < len(self.node.args):
            found = self.node.args[position]
            return None if any(isinstance(a, ast.Starred) for a in self.node.args) else found
        return None
