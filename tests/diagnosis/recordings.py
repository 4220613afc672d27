"""Runs as files, in order to diagnose them without running them again.

A recording is the text of a run's files, with marks in place of a machine's own folders and name.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import sysconfig
from pathlib import Path

import nbdist
from nbdist.processes import identify
from nbdist.store import RunDirectory

RECORDED = Path(__file__).parent / "recorded"
PROGRAM = "cell.py"


def record(name: str, directory: RunDirectory, folder: Path = RECORDED) -> None:
    """Keep the files of a run, except the room reserved for an error's report."""
    files = {}
    for path in sorted(directory.path.rglob("*")):
        if path.is_file() and path.suffix != ".room":
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            for mark, here in _marks(directory).items():
                text = text.replace(here, mark)
            files[str(path.relative_to(directory.path))] = text
    files = {file: text.splitlines() if file == PROGRAM else text for file, text in files.items()}
    (folder / f"{name}.json").write_text(json.dumps(files, indent=1) + "\n")


def program_of(name: str, folder: Path = RECORDED) -> str:
    """Return the text of the program that a recorded run ran."""
    return text_of(json.loads((folder / f"{name}.json").read_text())[PROGRAM])


def text_of(recorded: str | list[str]) -> str:
    """Return the text of a file: programs are lists of lines, for people to read."""
    return recorded if isinstance(recorded, str) else "".join(f"{line}\n" for line in recorded)


def laid_out(name: str, home: Path, folder: Path = RECORDED) -> RunDirectory:
    """Write the files of a recorded run as they would be here."""
    files = json.loads((folder / f"{name}.json").read_text())
    directory = RunDirectory(home / json.loads(files["spec.json"])["run_id"])
    for file, recorded in files.items():
        text = text_of(recorded)
        for mark, here in _marks(directory).items():
            text = text.replace(mark, here)
        path = directory.path / file
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return directory


def _marks(directory: RunDirectory) -> dict[str, str]:
    """Return the marks of this machine's own names, the longest paths first."""
    own = identify(os.getpid())
    paths = sysconfig.get_paths()
    return {
        "<run>": str(directory.path),
        "<work>": str(directory.path.parents[2]),
        "<site>": paths["purelib"],
        "<library>": paths["stdlib"],
        "<nbdist>": str(Path(nbdist.__file__).parent),
        "<tests>": str(Path(__file__).parents[1]),
        "<repository>": str(Path(__file__).parents[2]),
        "<prefix>": sys.prefix,
        "<base>": sys.base_prefix,
        "<boot>": own.boot_id,
        '"host": "<machine>"': f'"host": "{socket.gethostname()}"',
    }
