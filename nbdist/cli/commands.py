"""The commands of ``nbdist``, their help, and what an error becomes: one line and an exit code."""

from __future__ import annotations

import difflib
import io
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import nbdist
from nbdist.cli import alloc, autoload, boards, exporting, looking, running, stacks
from nbdist.cli import doctor as doctors
from nbdist.cli.exits import OUTPUT_CLOSED, USAGE
from nbdist.cli.terminal import complain, discard_output
from nbdist.errors import NbdistError, UsageMistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. ``run`` gets the words behind its name and returns the exit code."""

    usage: str
    about: str
    run: Callable[[Sequence[str]], int]
    help: Callable[[], str]


COMMANDS = {
    "run": Command(
        usage=running.RUN_USAGE,
        about="run a script on several ranks",
        run=running.run,
        help=running.run_help,
    ),
    "status": Command(
        usage=looking.STATUS_USAGE,
        about="the latest runs, or these, with their ranks",
        run=looking.status,
        help=lambda: looking.STATUS_HELP,
    ),
    "logs": Command(
        usage=looking.LOGS_USAGE,
        about="what the ranks have written",
        run=looking.logs,
        help=lambda: looking.LOGS_HELP,
    ),
    "stop": Command(
        usage=looking.STOP_USAGE,
        about="stop a run, or all, and wait for the end",
        run=looking.stop,
        help=lambda: looking.STOP_HELP,
    ),
    "stacks": Command(
        usage=stacks.STACKS_USAGE,
        about="where every rank of a run is now",
        run=stacks.stacks,
        help=lambda: stacks.STACKS_HELP,
    ),
    "attach": Command(
        usage=running.ATTACH_USAGE,
        about="follow a run; Ctrl-C leaves it running",
        run=running.attach,
        help=lambda: running.ATTACH_HELP,
    ),
    "board": Command(
        usage=boards.BOARD_USAGE,
        about="the curves of runs in VisualDL, or a report of them as a file",
        run=boards.board,
        help=lambda: boards.BOARD_HELP,
    ),
    "alloc": Command(
        usage=alloc.ALLOC_USAGE,
        about="nodes of Slurm that are kept for the next runs",
        run=alloc.alloc,
        help=lambda: alloc.ALLOC_HELP,
    ),
    "autoload": Command(
        usage=autoload.AUTOLOAD_USAGE,
        about="every kernel begins with nbdist loaded, or no longer",
        run=autoload.autoload,
        help=lambda: autoload.AUTOLOAD_HELP,
    ),
    "doctor": Command(
        usage=doctors.DOCTOR_USAGE,
        about="what works on this machine, what does not, and how to mend it",
        run=doctors.doctor,
        help=lambda: doctors.DOCTOR_HELP,
    ),
    "export": Command(
        usage=exporting.EXPORT_USAGE,
        about="a run as a script, for torchrun, paddle's launcher or Slurm",
        run=exporting.export,
        help=lambda: exporting.EXPORT_HELP,
    ),
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
        print(f"nbdist {nbdist.__version__}")
        return 0
    command = COMMANDS.get(name)
    if command is None:
        raise UsageMistake(_about_unknown(name))
    # what stands behind a script is the script's, --help too
    if {"-h", "--help"} & set(running.own_words(rest) if name == "run" else rest):
        print(f"{command.usage}\n\n{command.help()}")
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
