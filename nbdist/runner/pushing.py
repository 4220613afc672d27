"""Names that pass from a notebook to its ranks (``--push``), or back as results (``--pull``)."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from nbdist import config
from nbdist.errors import UsageMistake
from nbdist.frameworks.environment import imported_modules
from nbdist.model import Input
from nbdist.model.plan import Plan, Program
from nbdist.options import Options
from nbdist.privacy import MASK, is_secret_name
from nbdist.text import say, size_text

if TYPE_CHECKING:
    from nbdist.values.box import Item
    from nbdist.values.packing import Packed

AUTO = ("auto",)
_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """The names of a notebook, or of a program. ``values`` is the dict of its functions' globals itself;
    ``hidden`` are names in it that are not the user's; ``title`` replaces the file name of a cell's code by
    the cell's name. ``also`` are further values to push, by names that the notebook does not have."""

    values: dict[str, Any]
    hidden: Container[str] = ()
    title: Callable[[str], str] = lambda filename: filename
    also: Mapping[str, Any] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.values and not self.owns(name)

    def owns(self, name: str) -> bool:
        """Return whether a name is the notebook's own: ``In``, ``get_ipython``, ``__name__``."""
        return name in self.hidden or name.startswith("__")


def pack_inputs(
    options: Options,
    program: Program,
    namespace: Namespace | None,
    *,
    path: Sequence[str],
    environ: Mapping[str, str],
) -> Packed | None:
    """Pack the values of ``namespace`` for the ranks, which find modules in ``path``; return None for no
    value. Raises UsageMistake for an unknown name, a value that cannot be sent, or too much."""
    if namespace is None:
        return None
    by_hand = (options.nodes or len(options.ips) or 1) > 1 and options.engine == "local"
    chosen = options.push or (AUTO if environ.get("NBDIST_PUSH") == "auto" and not by_hand else ())
    if chosen == AUTO:
        from nbdist.preflight import undefined_names

        chosen = tuple(filter(namespace.has, undefined_names(program.tree, path)))
    for name in chosen:
        if not namespace.has(name):
            raise UsageMistake(_unknown(name, namespace))
    if not chosen and not namespace.also:
        return None
    if namespace.also and by_hand:
        raise UsageMistake(
            "nbdist.run stores the function on a disk that the other machines do not see: write it into a "
            "script, and run that on each"
        )
    from nbdist.values.packing import TooLarge, Unsendable, pack  # cloudpickle is slow to import

    room = config.push_room(environ)
    values = {name: namespace.values[name] for name in chosen} | dict(namespace.also)
    try:
        packed = pack(values, namespace=namespace.values, title=namespace.title, most=room)
    except Unsendable as error:
        raise UsageMistake(f"--push: {error}") from None
    except TooLarge as error:
        raise UsageMistake(_too_large(error.items, room, more=True)) from None
    if packed.size > room:
        raise UsageMistake(_too_large(packed.items, room))
    return packed


def check_pulled(names: Sequence[str], namespace: Namespace, plan: Plan | None = None) -> None:
    """Raise UsageMistake for a name that a result must not take, or that the planned cell cannot give."""
    if own := next(filter(namespace.owns, names), ""):
        raise UsageMistake(
            f"--pull {own} would replace a part of the notebook itself: give the result another name"
        )

    if plan is None or not names or not plan.is_cell:
        return
    from nbdist.preflight import undefined_names

    text = "\n".join([plan.program.text, *names])
    unknown = set(undefined_names(Program.parse(text).tree, plan.spec.python_path))
    given = {item.name for item in plan.spec.inputs}
    for name in names:
        # a module of the user's may call nbdist.result
        if name in unknown - given and "result" not in text and not _imports_own(plan.program):
            raise UsageMistake(
                f"--pull {name}: the cell has no variable {name}, and gives no result of this name: name one "
                f"that it has, or add  {name} = …"
            )


def _imports_own(program: Program) -> bool:
    """Return whether a program imports a module that is not installed."""
    for name in imported_modules(program.tree):
        spec = find_spec(name) if name not in sys.stdlib_module_names else None
        if spec is not None and "site-packages" not in str(spec.origin or spec.submodule_search_locations):
            return True
    return False


def inputs_of(packed: Packed) -> tuple[Input, ...]:
    """Return the inputs as a run's spec keeps them."""
    return tuple(
        Input(
            name=item.name,
            type=_type(item),
            size=item.size,
            asked=item.asked,
            value=MASK if item.value and is_secret_name(item.name) else item.value,
            digest=item.digest,
        )
        for item in packed.items
    )


def describe_inputs(packed: Packed, also: Container[str] = ()) -> str:
    """Return ``pushed: Net (class), df (DataFrame, 48 MB)``; of ``also``, only what these brought along."""
    chosen = [_named(item) for item in packed.items if item.asked and item.name not in also]
    along = [_named(item) for item in packed.items if not item.asked]
    if not chosen:
        chosen, along = along, []
    moved = [item.name for item in packed.items if item.device]
    parts = {"runs.pushed": chosen, "runs.pushed-along": along, "runs.pushed-from-device": moved}
    language = config.language()
    return "".join(say(key, language, names=_listed(names)) for key, names in parts.items() if names)


def check_early(plan: Plan, packed: Packed) -> None:
    """Raise UsageMistake for a program that sets a variable too late: it counts at an import, and a pushed
    value imports that before the program's first line."""
    from nbdist.warm.match import changed_early, read_when_loaded

    names = [name for name in changed_early(plan, packed.packages) if read_when_loaded(name)]
    if not packed.packages or not names:
        return
    brings = " and ".join(packed.packages[:3])
    raise UsageMistake(
        f"the program sets {names[0]} too late: --push imports {brings}, which reads it, before the first "
        f"line. Write  --env {names[0]}=VALUE  instead"
    )


def _unknown(name: str, namespace: Namespace) -> str:
    if name in namespace.values:
        return f"--push {name} is a part of the notebook itself, which ranks do not have: leave it out"
    own = [known for known in namespace.values if namespace.has(known) and not known.startswith("_")]
    near = difflib.get_close_matches(name, own, n=3, cutoff=0.6)
    hint = f"did you mean  {' or '.join(near)}?" if near else "run the cell that makes it"
    return f"--push {name} is not in the notebook: {hint}"


def _too_large(items: Sequence[Item], room: int, *, more: bool = False) -> str:
    largest = sorted(items, key=lambda item: -item.size)
    sizes = ", ".join(f"{item.name} {size_text(item.size)}" for item in largest)
    total = sum(item.size for item in items)
    return (
        f"--push of {sizes} is {'more than ' if more else ''}{size_text(total)} in all, and "
        f"{size_text(room)} may be pushed: write them to a file and read it in the cell, or allow more with  "
        f"%env NBDIST_PUSH_GB={max(total, room) // 10**9 + 1}"
    )


def _type(item: Item) -> str:
    return item.type if item.kind == "data" else item.kind


def _named(item: Item) -> str:
    if item.value and not is_secret_name(item.name):
        return f"{item.name} {item.value}"
    size = f", {size_text(item.size)}" if item.kind == "data" else ""
    return f"{item.name} ({_type(item)}{size})"


def _listed(names: Sequence[str]) -> str:
    left = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f", … +{left}" if left > 0 else "")
