"""The options as tables: the magic's help, the README's, the reference's, the page's."""

from __future__ import annotations

from collections.abc import Collection

from nbdist.options.table import OPTIONS


def help_text(usage: str = "%%distributed [options]", *, without: Collection[str] = ()) -> str:
    """The options below ``usage`` as a table of text, but for the fields in ``without``."""
    shown = [option for option in OPTIONS if option.field not in without]
    rows = [(", ".join(o.flags) + (f" {o.metavar}" if o.metavar else ""), o.help.en) for o in shown]
    width = max(len(left) for left, _ in rows)
    return "\n".join([usage, *(f"  {left:<{width}}  {right}" for left, right in rows)])


def markdown_table(*, rare: bool = False) -> str:
    """The options as the table of the README; with the ``rare`` ones, of the reference."""
    lines = ["| Option | What it does |", "|---|---|"]
    for option in OPTIONS:
        if option.rare and not rare:
            continue
        written = f"{', '.join(option.flags)} {option.metavar}".rstrip()
        # a bare | would end the table's cell
        cells = [cell.replace("|", r"\|") for cell in (f"`{written}`", option.help.en)]
        lines.append(f"| {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def option_list() -> list[dict[str, object]]:
    """``OptionList`` in openapi.yaml: for pages that complete options, or make a form of them."""
    return [
        {
            "flags": list(option.flags),
            "metavar": option.metavar,
            "help": option.help._asdict(),
            "choices": list(option.choices),
            "many": option.many,
        }
        for option in OPTIONS
    ]
