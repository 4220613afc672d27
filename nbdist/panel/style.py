"""The look of what stays in a notebook: colours for light and dark pages, as CSS of a few rules.

Greys and state colours are JupyterLab's variables, with fallbacks that are read on either ground where a
page has none of them. A code host that takes styles away leaves words, marks and tables.
"""

from __future__ import annotations

_LIGHT = (
    "--n-err:#b71c1c;--n-ok:#2e7d32;--n-brand:#1565c0;--n-warn:#8a4b00;--n-soft:#fdecea;"
    "--n-0:#0067a8;--n-1:#b84a00;--n-2:#007a5a;--n-3:#9a4c86;--n-4:#5e5200;--n-5:#117690;--n-6:#5a5a5a;"
    "--n-7:#7d1238;--n-on:#fff;--n-red:#b71c1c;--n-green:#00703c;--n-yellow:#7a5b00;--n-blue:#1258a8;"
    "--n-magenta:#8e3b9c;--n-cyan:#0b6e83"
)
_DARK = (
    "--n-err:#ff9d94;--n-ok:#7ccf98;--n-brand:#7cc0fa;--n-warn:#ffb74d;--n-soft:#3a2322;"
    "--n-0:#56b4e9;--n-1:#ff8a4c;--n-2:#2fc39a;--n-3:#d99ac5;--n-4:#f2e07a;--n-5:#9fe3f0;--n-6:#b8b8b8;"
    "--n-7:#ff7f9d;--n-on:#111;--n-red:#ff9d94;--n-green:#7ccf98;--n-yellow:#dfbd5c;--n-blue:#7cc0fa;"
    "--n-magenta:#d9a3e3;--n-cyan:#66cadb"
)
# how JupyterLab and nbconvert, VS Code, and Colab say that a page is dark
_DARK_PAGES = ("[data-jp-theme-light=false]", ".vscode-dark", "[theme=dark]")
_GREY = "color:var(--jp-ui-font-color2,inherit)"
_FONT = "var(--jp-ui-font-family, system-ui, sans-serif)"
_LINE = "var(--jp-border-color2,rgba(127,127,127,.35))"
# between the page and its text on either ground; --jp-layout-color2 leaves grey text too little contrast
_GROUND = "rgba(127,127,127,.1)"


def sheet(name: str, rules: str) -> str:
    """A style element for the class ``name``: the palette, what is common, then ``rules``, in which
    ``&`` stands for the class, ``LINE`` and ``GROUND`` for colours of the page."""
    # three times, to weigh more than what JupyterLab says of tables and code in an output
    own = f".{name}" * 3
    dark = ",".join(f"{page} {own}" for page in _DARK_PAGES)
    text = f"{own}{{{_LIGHT}}}{dark}{{{_DARK}}}{_COMMON}{rules}"
    text = text.replace("&", own).replace("LINE", _LINE).replace("GROUND", _GROUND)
    return f"<style>{' '.join(text.split())}</style>"


_COMMON = f"""
& {{ font: 13px/20px {_FONT}; color: var(--jp-ui-font-color1, inherit);
  font-variant-numeric: tabular-nums; }}
& .n-muted {{ {_GREY}; }}
& .n-succeeded {{ color: var(--n-ok); }} & .n-failed, & .n-lost {{ color: var(--n-err); }}
& .n-running {{ color: var(--n-brand); }} & .n-stopping {{ color: var(--n-warn); }}
& .n-rank {{ display: inline-block; box-sizing: border-box; min-width: 20px; padding: 0 4px;
  border-radius: 2px; background: var(--n-6); color: var(--n-on); font: 700 11px/16px {_FONT};
  text-align: center; white-space: nowrap; }}
""" + "".join(f"& .n-k{rank} {{ background: var(--n-{rank}); }}" for rank in range(8))


def rank_chip(ranks: str) -> str:
    """A rank's number on its colour; for several ranks (``0–3``) on grey."""
    number = f" n-k{int(ranks) % 8}" if ranks.isdigit() else ""
    return f'<span class="n-rank{number}">{ranks}</span>'
