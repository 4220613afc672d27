"""The front end behind the shell, and the look of nbdist's errors in IPython."""

from __future__ import annotations

import contextlib
import difflib
import html
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics
from IPython.display import display

from nbdist import config, panel, runner
from nbdist.errors import LaunchError, RunStopped, UnknownRun, UsageMistake
from nbdist.feed.ansi import harmless
from nbdist.model import Reason
from nbdist.text import say

AnError = TypeVar("AnError", bound=BaseException)

_CALM = (RunStopped, UsageError)
_UNKNOWN = re.compile(r"(Line|Cell) magic (?:function )?`(%%?)(\w+)` not found")
_SHUTDOWN_FOLLOWS = 0.15
"""Seconds after a server's SIGINT in which its request to shut down arrives."""
_PANEL = Path(panel.__file__).parent / "static/panel.js"


def shell_of(magics: Magics) -> InteractiveShell:
    assert magics.shell is not None, "magics that are called belong to a shell"
    return magics.shell


@contextlib.contextmanager
def as_usage_errors() -> Iterator[None]:
    """Raise mistakes of the user as UsageError, a line in IPython (of a subclass it prints a traceback)."""
    try:
        yield
    except (UsageMistake, LaunchError) as error:
        raise UsageError(harmless(str(error))) from None
    except KeyboardInterrupt as error:
        raise without_frames(error) from None


@contextlib.contextmanager
def offering(shell: InteractiveShell, line: str | None) -> Iterator[None]:
    """Offer the line that mends a UsageMistake, where a page can make a button of it. ``line`` is what stands
    behind ``%%distributed``; None for another magic."""
    try:
        yield
    except UsageMistake as mistake:
        if mistake.add and line is not None and draws_widgets(shell):
            kept = re.sub(rf"{mistake.instead_of}[ =]\S+", "", line) if mistake.instead_of else line
            mended = html.escape(" ".join(["%%distributed", *kept.split(), mistake.add]))
            label = html.escape(say("runs.add-and-run", config.language(), add=mistake.add))
            bundle = {
                "text/html": f'<div class="nbdist-mended" data-line="{mended}" data-label="{label}"></div>'
            }
            display(bundle, raw=True)
        raise


def without_frames(error: AnError, *, brief: bool = False) -> AnError:
    """Return the error, of which IPython shows only the message; ``brief``: its first line, below a panel."""

    def render() -> list[str]:
        head, _, rest = str(error).partition("\n")
        name = type(error).__name__
        return [f"\x1b[31m{name}\x1b[0m: {head}", *([] if brief else rest.splitlines())]

    # the hook of IPython.core.interactiveshell.showtraceback
    error._render_traceback_ = render  # type: ignore[attr-defined]
    return error


def show_errors_calmly(shell: InteractiveShell) -> None:
    """Show no traceback for RunStopped: the cell fails, but its run obeyed the user. For a magic that IPython
    does not know, name the nearest one."""
    # IPython has one such handler, which another extension may have set
    if not shell.custom_exceptions:
        shell.set_custom_exc(_CALM, _show_calmly)


def forget_errors(shell: InteractiveShell) -> None:
    """Undo ``show_errors_calmly``."""
    if shell.custom_exceptions == _CALM:
        shell.set_custom_exc((), None)


def stopped(text: str) -> RunStopped:
    """Return the error of a requested stop, which shows nothing: the panel or the summary has said it."""
    error = RunStopped(text)
    error._render_traceback_ = list  # type: ignore[attr-defined]
    return error


def _show_calmly(
    shell: InteractiveShell, _kind: type, error: Exception, _trace: object, tb_offset: int | None = None
) -> list[str]:
    if isinstance(error, UsageError):
        shell.show_usage_error(_with_nearest(shell, error))
        return []
    # that of a call in the user's own program is a line
    lines: list[str] = getattr(error, "_render_traceback_", lambda: [str(error)])()
    for line in lines:
        print(line)
    # a kernel's reply carries the last traceback
    shell._last_traceback = lines  # type: ignore[attr-defined]
    return lines


def _with_nearest(shell: InteractiveShell, error: UsageError) -> UsageError:
    """Return the error of IPython for an unknown magic with the nearest one of nbdist; any other as it is."""
    if (unknown := _UNKNOWN.match(str(error))) is None:
        return error
    kind, sign, name = unknown.groups()
    ours = [each for each in shell.magics_manager.magics[kind.lower()] if re.match(r"dist|ranks?$", each)]
    near = difflib.get_close_matches(name, ours, n=1, cutoff=0.7)
    return UsageError(f"no magic {sign}{name}: did you mean  {sign}{near[0]}?") if near else error


def interrupts() -> runner.Interrupts:
    """Return the interrupts of the kernel from here on, which stop a run that starts meanwhile."""
    return runner.Interrupts(lambda _: why_interrupted(getattr(get_ipython(), "kernel", None)), raises=True)


def why_interrupted(kernel: object) -> Reason:
    """Return the reason for a SIGINT: a server sends one to a kernel that it is about to restart."""
    deadline = time.monotonic() + _SHUTDOWN_FOLLOWS
    while kernel is not None and time.monotonic() < deadline:
        # the control thread of ipykernel sets it
        if (reply := getattr(kernel, "_shutdown_message", None)) is not None:
            return Reason("kernel-restarted" if reply["content"].get("restart") else "kernel-ended")
        time.sleep(0.01)
    return Reason("kernel-interrupted")


@contextlib.contextmanager
def stopped_with_its_cell(
    handle: runner.RunHandle | runner.SweepHandle, taken: runner.Interrupts
) -> Iterator[None]:
    """Stop the run, or sweep, when its cell fails: it would go on unseen."""
    try:
        yield
    except BaseException:
        if not taken.came():
            with contextlib.suppress(UnknownRun, OSError):
                handle.request_stop(Reason("cell-not-shown"))
        raise


def tell(*notes: object) -> None:
    """Print notes, except empty ones."""
    for note in filter(None, notes):
        print(harmless(f"[nbdist] {note}"), flush=True)


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def kernel_id(shell: InteractiveShell | None) -> str:
    """Return the Jupyter server's id of this kernel; empty outside one."""
    if getattr(shell, "kernel", None) is None:
        return ""
    from ipykernel.connect import get_connection_file

    try:
        name = os.path.basename(get_connection_file())
    except RuntimeError:
        return ""
    match = re.fullmatch(r"kernel-(.+)\.json", name)
    return match[1] if match else ""


def in_marimo() -> bool:
    """Return whether marimo runs this cell: it draws anywidgets, and has no IPython shell."""
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


def draws_widgets(shell: InteractiveShell | None) -> bool:
    """Guess whether a front end that draws widgets runs this cell; NBDIST_PANEL=widget or text overrides it.

    A notebook page names the cell in its request's metadata (JupyterLab, Notebook 7, VS Code) or sends an
    empty user name; nbclassic answers input() and calls its user "username". jupyter_client, and with it
    nbclient and the consoles, does none of that.
    """
    if not _PANEL.exists():
        print("[nbdist] the panel of this checkout is not built (make builds it): text instead")
        return False
    wanted = os.environ.get("NBDIST_PANEL", "auto")
    if wanted in ("widget", "text"):
        return wanted == "widget"
    if in_marimo():
        return True
    if getattr(shell, "kernel", None) is None:
        return False
    # Voilà executes the notebook without a page, and serves one afterwards
    if "google.colab" in sys.modules or os.environ.get("SERVER_SOFTWARE", "").startswith("voila/"):
        return True
    parent = request_of(shell)
    user = parent.get("header", {}).get("username")
    if "cellId" in parent.get("metadata", {}) or user == "":
        return True
    # jupyter_client, too, sends "username" where USER is not set
    answers = parent.get("content", {}).get("allow_stdin")
    return bool(user == "username" and answers and os.environ.get("USER"))


def widgets_reach_outputs(shell: InteractiveShell | None) -> bool:
    """Return whether a widget's script finds the other outputs of the notebook in its page. Not in VS Code
    (whose cell ids are URIs) and Colab: they keep outputs in frames, and load no other widgets."""
    if getattr(shell, "kernel", None) is None or "google.colab" in sys.modules:
        return False
    return not cell_id(shell).startswith("vscode")


def cell_id(shell: InteractiveShell | None) -> str:
    """Return the current cell's id (in VS Code a URI), where the front end sends it."""
    return str(request_of(shell).get("metadata", {}).get("cellId", ""))


def place_of(shell: InteractiveShell | None) -> dict[str, Any]:
    """Return ``notebook``, its path, which JupyterLab and Notebook 7 set, and the current ``cell_id``."""
    return {"notebook": os.environ.get("JPY_SESSION_NAME", ""), "cell_id": cell_id(shell)}


def request_of(shell: InteractiveShell | None) -> dict[str, Any]:
    """Return the execute request of the cell; empty outside a kernel."""
    kernel = getattr(shell, "kernel", None)
    parent: dict[str, Any] | None = kernel.get_parent() if kernel is not None else None
    return parent or {}
