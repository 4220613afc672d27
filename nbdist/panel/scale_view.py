"""A scale as text with bars, and as static HTML with a picture of its speed-up."""

from __future__ import annotations

import html

from nbdist.feed.ansi import printable
from nbdist.feed.scale import Scaling
from nbdist.panel.look import text_table
from nbdist.text import say

_BAR = 24  # characters of the largest number of ranks, if it were the ideal
_WIDTH, _HEIGHT, _MARGIN = 360, 160, 28


def scale_text(scaling: Scaling, language: str) -> str:
    """Return the table, a bar of the speed-up up to the ideal for each point, and the sentence."""
    titles, *rows = scaling.table(language)
    parts = [text_table([titles, *rows])]
    if len(measured := scaling.measured) > 1:
        ideals = [point.ranks / measured[0].ranks for point in measured]
        unit = _BAR / max(*ideals, *(point.speedup for point in measured))
        bars = [
            [str(point.ranks), _bar(ideal * unit, point.speedup * unit)]
            for point, ideal in zip(measured, ideals, strict=True)
        ]
        parts.append(text_table([["", f"{titles[2]} █, {say('scale.ideal', language)} ░"], *bars]))
    return "\n\n".join(filter(None, [*parts, printable(scaling.sentence(language))]))


def _bar(ideal: float, reached: float) -> str:
    return "█" * round(reached) + "░" * max(0, round(ideal) - round(reached))


def scale_html(scaling: Scaling, language: str) -> str:
    """Return the sentence, the table, and the picture."""
    titles, *rows = (
        "".join(f"<{tag}>{html.escape(printable(cell)) or '–'}</{tag}>" for cell in row)
        for tag, row in zip(["th", *["td"] * len(scaling.points)], scaling.table(language), strict=True)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f"<div>{html.escape(printable(scaling.sentence(language)))}</div>"
        f'<div class="n-wide"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{_picture(scaling, language)}"
    )


def _picture(scaling: Scaling, language: str) -> str:
    """Return the speed-up by ranks beside the ideal line; empty for one point."""
    measured = scaling.measured
    if len(measured) < 2:
        return ""
    base, most = measured[0].ranks, measured[-1].ranks
    top = max(most / base, *(point.speedup for point in measured))

    def spot(ranks: float, speedup: float) -> tuple[float, float]:
        x = _MARGIN + (ranks - base) / (most - base) * (_WIDTH - 3 * _MARGIN)
        return x, _HEIGHT - _MARGIN / 2 - speedup / top * (_HEIGHT - _MARGIN)

    spots = [spot(point.ranks, point.speedup) for point in measured]
    (x, y), (right, high) = spot(base, 1.0), spot(most, most / base)
    path = " ".join(f"{x:.0f},{y:.1f}" for x, y in spots)
    dots = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.1f}" r="3"></circle>'
        f'<text x="{x + 6:.0f}" y="{y + 12:.1f}">{point.ranks}: {point.speedup:.2f} ×</text>'
        for (x, y), point in zip(spots, measured, strict=True)
    )
    name = html.escape(scaling.table(language)[0][2])
    return (
        f'<svg role="img" aria-label="{name}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'style="max-width:100%" font-size="11">'
        f'<polyline fill="none" stroke="currentColor" stroke-opacity=".4" stroke-dasharray="4 4" '
        f'points="{x:.0f},{y:.1f} {right:.0f},{high:.1f}"></polyline>'
        f'<text x="{right + 6:.0f}" y="{high:.1f}" fill="currentColor" fill-opacity=".7">'
        f"{html.escape(say('scale.ideal', language))}</text>"
        f'<g fill="var(--n-0)"><polyline fill="none" stroke="var(--n-0)" stroke-width="1.5" '
        f'points="{path}"></polyline>{dots}</g></svg>'
    )
