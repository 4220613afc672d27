"""A program as the checks see it: its syntax tree, what its names stand for, what surely runs."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from nbdist.diagnosis.checks.places import Call, Place
from nbdist.diagnosis.checks.walk import Walk


@dataclass(slots=True)
class Program:
    """``tree`` and what was found in it. Raises nothing for what it does not understand."""

    tree: ast.Module
    aliases: dict[str, str] = field(default_factory=dict)
    places: dict[ast.AST, Place] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    constants: dict[str, object] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    """Every identifier, attribute and keyword."""

    strings: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, source: str) -> Program:
        """Raises SyntaxError or ValueError for what is no Python."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = cls(tree=ast.parse(source))
        program._read_names()
        Walk(program).run()
        return program

    def dotted(self, node: ast.AST) -> str:
        """``torch.distributed.barrier`` for ``dist.barrier`` after ``import torch.distributed as dist``."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.aliases.get(node.id, node.id), *reversed(parts)])

    def value(self, node: ast.AST | None) -> object:
        """The constant that an expression is, or that its name was once given; None where it is none."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.constants.get(node.id)
        if isinstance(node, ast.Call) and self.dotted(node.func) == "str" and node.args:
            inner = self.value(node.args[0])
            return None if inner is None else str(inner)
        return None

    def imports(self) -> Iterator[tuple[str, ast.stmt]]:
        """Every absolute name that is imported, with the statement."""
        for node in self.places:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)

    def uses(self, module: str) -> bool:
        """Whether the program imports from ``module``."""
        return any(name.partition(".")[0] == module for name, _ in self.imports())

    def mentions(self, *words: str) -> bool:
        """Whether one of these stands somewhere, as an identifier or as a string."""
        return any(word in self.words or word in self.strings for word in words)

    def _read_names(self) -> None:
        assigned: dict[str, int] = {}
        for node in ast.walk(self.tree):
            match node:
                case ast.Import():
                    for alias in node.names:
                        self.words |= set(alias.name.split("."))
                        top = alias.name if alias.asname else alias.name.partition(".")[0]
                        self.aliases[alias.asname or top] = top
                case ast.ImportFrom(module=str(module), level=0):
                    for alias in node.names:
                        self.words |= {alias.name, *module.split(".")}
                        self.aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
                case ast.Name():
                    self.words.add(node.id)
                    if not isinstance(node.ctx, ast.Load):
                        assigned[node.id] = assigned.get(node.id, 0) + 1
                case ast.Attribute():
                    self.words.add(node.attr)
                case ast.keyword(arg=str(name)):
                    self.words.add(name)
                case ast.arg():
                    self.words.add(node.arg)
                    assigned[node.arg] = 2
                case ast.Constant(value=str(text)):
                    self.strings.add(text)
        if "fluid" not in assigned:
            # cells of old programs use it where another cell has imported it
            self.aliases.setdefault("fluid", "paddle.fluid")
        for statement in self.tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if assigned[name] == 1:
                    if isinstance(value, ast.Constant):
                        self.constants[name] = value.value
                    elif isinstance(value, ast.Attribute) and (whole := self.dotted(value)):
                        self.aliases.setdefault(name, whole)
