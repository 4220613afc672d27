"""What a program sets before it imports its framework: ranks that have imported it know nothing of it."""

from __future__ import annotations

from collections.abc import Iterator

from nbdist.model import Plan


def changed_early(plan: Plan) -> list[str]:
    """The variables to which the text gives other values than the ranks have, before the first line that
    surely imports the framework. What is not written out in the text is not seen here: the rank itself
    notices it (``worker.gate``)."""
    if "environ" not in plan.source and "putenv" not in plan.source:
        return []
    try:
        settings = list(_settings(plan))
    except (SyntaxError, ValueError, RecursionError):
        return []
    given = [{**plan.environment, **rank.environment} for rank in plan.spec.ranks]
    return [
        name
        for name, value, default in settings
        if any((name not in own) if default else (value is None or own.get(name) != value) for own in given)
    ]


def _settings(plan: Plan) -> Iterator[tuple[str, str | None, bool]]:
    """Name and value (None: the text does not tell), and whether it is set only where there is none."""
    # the checks take a while to import, and this module is imported with nbdist
    from nbdist.diagnosis.checks import Program, assignments

    program = Program.of(plan.source)
    imports = (
        node.lineno
        for name, node in program.imports()
        if name.partition(".")[0] == plan.spec.framework and node in program.tree.body
    )
    first = min(imports, default=float("inf"))
    for key, value, node, _ in assignments(program):
        if node.lineno < first:
            yield key, value, False
    for call in program.calls:
        name = program.value(call.argument("key", 0))
        if call.name == "os.environ.setdefault" and call.line < first and isinstance(name, str):
            yield name, None, True
