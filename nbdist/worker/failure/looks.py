"""Looks at values by which no line of the program runs: ``isinstance()`` asks a value for its ``__class__``,
``in`` compares, and ``vars()`` of a module may import it.
"""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_OF_TYPE = vars(type)


def is_a(value: object, *kinds: type) -> bool:
    return issubclass(type(value), kinds)


def is_class(value: object) -> bool:
    return issubclass(type(value), type)


def is_among(one: object, others: Iterable[object]) -> bool:
    return any(one is other for other in others)


def mro(kind: type) -> tuple[type, ...]:
    found: tuple[type, ...] = _OF_TYPE["__mro__"].__get__(kind)
    return found


def name_of(kind: type) -> str:
    return str(_OF_TYPE["__name__"].__get__(kind))


def module_of(kind: type) -> str:
    # classes of C do not have it among their attributes
    found = _OF_TYPE["__module__"].__get__(kind)
    return found if type(found) is str else ""


def family_of(kind: type) -> str:
    """The package that a class is of."""
    return module_of(kind).partition(".")[0]


def members(of: Any) -> dict[str, Any]:
    """The attributes of an object, a class or a module itself; empty where it has none."""
    if is_class(of):
        return dict(_OF_TYPE["__dict__"].__get__(of))
    try:
        found = object.__getattribute__(of, "__dict__")
    except AttributeError:
        return {}
    return found if is_a(found, dict) else {}


def of_class(kind: type, name: str) -> Any:
    """An attribute as the classes have it, or None."""
    return next((own[name] for own in map(members, mro(kind)) if name in own), None)


def is_module(value: object) -> bool:
    return is_a(value, types.ModuleType)
