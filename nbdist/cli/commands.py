"""The commands of ``nbdist``, and ``nbdist autoload``."""

from __future__ import annotations

import difflib
import io
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.cli import results, running
from nbdist.cli.mcp import MCP
from nbdist.cli.running import HERE, OUTPUT_CLOSED, USAGE, complain, discard_output
from nbdist.errors import LaunchError, NbdistError, UsageMistake
from nbdist.verbs import table
from nbdist.verbs.verb import HELP, TERMINAL, Argument, Frontend, Result, Verb
from nbdist.version import __version__

_FILE = "50-nbdist.py"
# no name is left in what is the notebook's own namespace
_SCRIPT = """\
# Written by "nbdist autoload on", removed by "nbdist autoload off": %%distributed in every kernel.
try:
    __import__("nbdist").load_ipython_extension(get_ipython())
except ModuleNotFoundError as error:
    if error.name != "nbdist":  # this environment has none
        raise
"""


def _autoload(frontend: Frontend, *, switch: str | None, profile: str) -> Path:
    """Write or remove the script, as was asked; where it is, or would be. Raises UsageMistake, and
    LaunchError where it cannot be changed."""
    script = _startup(profile) / _FILE
    try:
        if switch == "on":
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_text(_SCRIPT, encoding="utf-8")
        elif switch == "off":
            script.unlink(missing_ok=True)
        elif switch:
            raise UsageMistake(f"nbdist autoload {switch}: write  {frontend.usage}")
    except OSError as error:
        raise LaunchError(f"{script} cannot be changed: {error.strerror}") from error
    return script


def _startup(profile: str) -> Path:
    # none of the other commands needs IPython
    from IPython.paths import get_ipython_dir

    if not profile or Path(profile).name != profile:
        raise UsageMistake(f"--profile {profile}: the name of a profile of IPython, as in  --profile default")
    return Path(get_ipython_dir()) / f"profile_{profile}" / "startup"


AUTOLOAD = Verb(
    name="autoload",
    about="every kernel begins with nbdist loaded, or no longer",
    text="""\
on: every kernel and every IPython of this user begins with nbdist loaded; in one whose environment has
no nbdist nothing happens. off: as it was before. Neither: say which it is. Kernels that run keep what
they have until they are restarted.

It is one file in the startup folder of a profile of IPython. JupyterLab and Notebook 7 do not need it:
their page loads nbdist for the first cell that uses it.""",
    arguments=(
        Argument("on|off", name="switch"),
        Argument("--profile NAME", "the profile (default)", default="default"),
    ),
    act=_autoload,
)


def show_autoload(script: Path) -> int:
    if script.exists():
        print(f"[nbdist] on: kernels that start from now on have %%distributed ({script})")
    else:
        print("[nbdist] off: a notebook begins with  %load_ext nbdist")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. ``run`` gets the words behind its name and returns the exit code; ``own`` are those of
    them that are not a program's."""

    about: str
    run: Callable[[Sequence[str]], int]
    help: Callable[[], str]
    own: Callable[[Sequence[str]], Sequence[str]] = list


def _command(verb: Verb[Result], show: Callable[[Result], int]) -> Command:
    return Command(
        about=verb.about,
        run=lambda words: show(verb(words, HERE)),
        help=lambda: verb.help(TERMINAL),
    )


COMMANDS = {
    "run": Command(
        about="run a script on several ranks",
        run=running.run,
        help=running.run_help,
        own=running.own_words,
    ),
    "status": _command(table.STATUS, results.show_status),
    "logs": _command(table.LOGS, results.show_logs),
    "explain": _command(table.EXPLAIN, results.show_explained),
    "wait": _command(table.WAIT, results.show_waited),
    "metrics": _command(table.METRICS, results.show_metrics),
    "compare": _command(table.COMPARE, results.show_compared),
    "stop": _command(table.STOP, results.show_stopped),
    "stacks": _command(table.STACKS, results.show_stacks),
    "attach": _command(table.ATTACH, running.show_attached),
    "board": _command(table.BOARD, results.show_board),
    "alloc": _command(table.ALLOC, results.show_allocations),
    "autoload": _command(AUTOLOAD, show_autoload),
    "doctor": _command(table.DOCTOR, results.show_examined),
    "export": _command(table.EXPORT, results.show_export),
    "mcp": _command(MCP, lambda _: 0),
    "resume": _command(table.RESUME, running.resume),
    "session": _command(table.SESSION, results.show_session),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Raises KeyboardInterrupt."""
    if sys.platform == "win32":
        complain("nbdist needs Linux or macOS: on Windows, run it inside WSL")
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a rank may write what the terminal has no character for
        sys.stdout.reconfigure(errors="replace")
    # what a script's source is warned about, its ranks say
    warnings.simplefilter("ignore", SyntaxWarning)
    try:
        return _dispatch(sys.argv[1:] if arguments is None else arguments)
    except UsageMistake as error:
        complain(str(error))
        return USAGE
    except NbdistError as error:
        complain(str(error))
        return 1
    except BrokenPipeError:
        discard_output()
        return OUTPUT_CLOSED


def _dispatch(words: Sequence[str]) -> int:
    if not words:
        print(_help(), file=sys.stderr)
        return USAGE
    name, *rest = words
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0
    if name in ("-V", "--version"):
        print(f"nbdist {__version__}")
        return 0
    command = COMMANDS.get(name)
    if command is None:
        raise UsageMistake(_about_unknown(name))
    # what stands behind a script is the script's, --help too
    if HELP & set(command.own(rest)):
        print(command.help())
        return 0
    return command.run(rest)


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "Multi-rank training runs (PyTorch, PaddlePaddle)",
            "",
            *(f"  nbdist {name:<{width}}  {command.about}" for name, command in COMMANDS.items()),
            "",
            "nbdist COMMAND --help says more; nbdist --version",
            "RUN is a run's id, its name, or the last four characters of its id; left out, the latest run.",
        ]
    )


def _about_unknown(name: str) -> str:
    if name.endswith(".py"):
        return f"no command {name}: write  nbdist run {name}"
    if near := difflib.get_close_matches(name, COMMANDS, n=1):
        return f"no command {name}: did you mean  nbdist {near[0]}?"
    return f"no command {name}: there are {', '.join(COMMANDS)}"
