"""``nbdist autoload``: the magics in every kernel of this user, without ``%load_ext nbdist``."""

from __future__ import annotations

from pathlib import Path

from nbdist.errors import LaunchError, UsageMistake
from nbdist.verbs.verb import Argument, Frontend, Verb

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
