"""How runs stand, as a table for a notebook page: static HTML, which a newer one replaces."""

from __future__ import annotations

import html
import time
from collections import Counter
from collections.abc import Sequence

from nbdist.model import RankState
from nbdist.panel.figures import memory_text, rate_text, use_text
from nbdist.panel.labels import ranks_text, state_mark, state_word
from nbdist.panel.stalling import held_words
from nbdist.panel.status import held_text, rank_state_text, run_state_text, said_of, shows_ranks, status_text
from nbdist.panel.style import rank_chip, sheet
from nbdist.panel.view import RankView, RunView, duration
from nbdist.text import say

_RANKS = 16
_COLUMNS = ("rank", "state", "device", "memory", "use", "rate", "elapsed", "pid", "last-line")


def status_bundle(views: Sequence[RunView], language: str, now: float) -> dict[str, str]:
    """The runs as they stood at ``now`` (Unix seconds), for a notebook: as HTML and as plain text."""
    return {"text/plain": status_text(views, language), "text/html": status_html(views, language, now)}


def status_html(views: Sequence[RunView], language: str, now: float) -> str:
    """A table with a heading for each run and a line for each of its ranks (``shows_ranks``)."""
    if not views:
        return f"<p>{html.escape(say('panel.no-runs', language))}</p>"
    head = "".join(f"<th>{html.escape(say('panel.' + column, language))}</th>" for column in _COLUMNS)
    if not any(shows_ranks(view, views) for view in views):
        head = ""
    body = "".join(_run(view, language, ranks=shows_ranks(view, views)) for view in views)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    foot = html.escape(say("panel.as-of", language, time=moment))
    return (
        f'{_SHEET}<div class="nbdist-status"><table><thead><tr>{head}</tr></thead>{body}</table>'
        f'<div class="n-muted">{foot}</div></div>'
    )


def _run(view: RunView, language: str, *, ranks: bool) -> str:
    if not ranks:
        return f"<tbody>{_heading(view, language)}</tbody>"
    shown = _that_matter(view)
    rows = "".join(_rank(rank, view, language) for rank in shown)
    if len(shown) < len(view.ranks):
        rows += _others(view, shown, language)
    return f"<tbody>{_heading(view, language)}{rows}</tbody>"


def _heading(view: RunView, language: str) -> str:
    said = [ranks_text(len(view.ranks), language), duration(view.elapsed)]
    said += said_of(view, language)
    bar = ""
    if view.progress is not None and view.live:
        share = 100 * min(1.0, max(0.0, view.progress.fraction))
        bar = f'<span class="n-bar"><span style="width:{share:.0f}%"></span></span> '
    return (
        f'<tr class="n-run"><th colspan="{len(_COLUMNS)}">{_mark("stalled" if view.hangs else view.state)} '
        f"{html.escape(run_state_text(view, language))} <code>{html.escape(view.label)}</code> "
        f'{bar}<span class="n-muted">{html.escape(" · ".join(said))}</span></th></tr>'
    )


def _mark(state: str) -> str:
    return f'<span class="n-{state}" aria-hidden="true">{state_mark(state)}</span>'


def _rank(rank: RankView, view: RunView, language: str) -> str:
    line = html.escape(rank.last_line.strip())
    cells = [
        _state(rank, view, language),
        html.escape(rank.device),
        memory_text(rank),
        use_text(rank),
    ]
    texts = "".join(f"<td>{cell}</td>" for cell in cells)
    # without a heading, on a narrow page, only this figure would say nothing
    rate = rate_text(rank.rate)
    unit = html.escape(say("panel.rate", language))
    texts += f'<td class="n-rate" data-unit="{unit}">{rate}</td>' if rate else "<td></td>"
    texts += f'<td class="n-extra">{duration(rank.elapsed)}</td><td class="n-extra">{rank.pid or ""}</td>'
    last = f'<td class="n-last" title="{line}">{line}</td>'
    return f"<tr><td>{rank_chip(str(rank.rank))}</td>{texts}{last}</tr>"


def _state(rank: RankView, view: RunView, language: str) -> str:
    held = held_text(view, rank, language)
    shown = rank.state
    if held:
        kinds = held_words(view.stall) if view.stall is not None else {}
        shown = "stalled" if kinds.get(rank.rank, ("", ""))[0] == "held" else "pending"
    return f"{_mark(shown)} {html.escape(held or rank_state_text(rank, language))}"


def _that_matter(view: RunView) -> list[RankView]:
    """All ranks, or of many those that failed and the lowest."""
    if len(view.ranks) <= _RANKS:
        return list(view.ranks)
    weighed = sorted(view.ranks, key=lambda rank: (rank.state not in ("failed", "lost"), rank.rank))
    return sorted(weighed[: _RANKS // 2], key=lambda rank: rank.rank)


def _others(view: RunView, shown: Sequence[RankView], language: str) -> str:
    """A line for the ranks that have none of their own: how many are in which state."""
    left = Counter(rank.state for rank in view.ranks)
    left.subtract(rank.state for rank in shown)
    said = "  ".join(
        f"{state_mark(state)} {count} {state_word(RankState(state), language)}"
        for state, count in left.most_common()
        if count
    )
    return f'<tr><td>…</td><td colspan="{len(_COLUMNS) - 1}">{html.escape(said)}</td></tr>'


_SHEET = sheet(
    "nbdist-status",
    """
& { container-type: inline-size; }
& table { width: 100%; table-layout: auto; border-collapse: collapse; font: inherit; margin: 0; border: 0; }
& th, & td { text-align: left; padding: 2px 12px 2px 0; font-weight: 400; white-space: nowrap;
  vertical-align: baseline; border: 0; max-width: none; }
& thead th { color: var(--jp-ui-font-color2, inherit); font-size: 12px; border-bottom: 1px solid LINE; }
& tr { background: none; }
& .n-run th { padding-top: 8px; white-space: normal; font-weight: 600; }
& .n-run code { font: 600 12px/20px var(--jp-code-font-family, monospace); background: none; color: inherit;
  margin: 0 4px; }
& .n-run .n-muted { font-weight: 400; }
& .n-last { width: 100%; max-width: 0; overflow: hidden; text-overflow: ellipsis;
  font-family: var(--jp-code-font-family, monospace); font-size: 12px; }
& .n-bar { display: inline-block; width: 120px; height: 4px; border-radius: 2px; vertical-align: middle;
  background: GROUND; box-shadow: 0 0 0 1px LINE; overflow: hidden; }
& .n-bar span { display: block; height: 100%; background: var(--n-brand); }
@container (max-width: 640px) {
  & table, & tbody, & .n-run th { display: block; }
  & thead, & td:empty, & .n-extra { display: none; }
  & tr { display: flex; flex-wrap: wrap; }
  & .n-last { flex: 0 0 100%; box-sizing: border-box; max-width: 100%; padding: 0 0 2px 32px; }
  & .n-rate::after { content: " " attr(data-unit); }
}
""",
)
