"""Do something once a module has been imported, without importing it.

The classes are finders and loaders by their methods alone: ``importlib.abc`` takes 19 ms to import.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call ``action`` with the module ``name`` right after its code has run, or now if it has."""
    if (module := sys.modules.get(name)) is not None:
        action(module)
    else:
        sys.meta_path.insert(0, _Watch(name, action))


def around_import(name: str, before: Callable[[], Callable[[], None]]) -> None:
    """Call ``before`` when the code of the module ``name`` is about to run, and what that returns when it
    has, however that ended. Nothing is done of a module that is there."""
    if name not in sys.modules:
        sys.meta_path.insert(0, _Watch(name, lambda _: None, before))


def _nothing() -> Callable[[], None]:
    return lambda: None


class _Watch:
    """Finds one module as the others would, with a loader that calls the action, then leaves."""

    def __init__(
        self,
        name: str,
        action: Callable[[ModuleType], None],
        before: Callable[[], Callable[[], None]] = _nothing,
    ) -> None:
        self._name = name
        self._action = action
        self._before = before

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ActingLoader(  # type: ignore[assignment]
                        spec.loader, self._action, self._before
                    )
                return spec
        return None


class _ActingLoader:
    def __init__(
        self, loader: Any, action: Callable[[ModuleType], None], before: Callable[[], Callable[[], None]]
    ) -> None:
        self._loader = loader
        self._action = action
        self._before = before

    def exec_module(self, module: ModuleType) -> None:
        # from here on the module looks as if it had been loaded without us
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        after = self._before()
        try:
            self._loader.exec_module(module)
        finally:
            after()
        self._action(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
