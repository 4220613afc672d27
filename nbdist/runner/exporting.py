"""A run as files that need no nbdist to be started: its script, and what starts it with torchrun, with
paddle's launcher or under Slurm."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from nbdist.errors import UsageMistake
from nbdist.model import CellEnded, CellStarted, RunSpec
from nbdist.model.plan import Program
from nbdist.privacy import find_secrets, may_be_written
from nbdist.runner.handle import RunHandle
from nbdist.runner.placement import DEFAULT_PORT
from nbdist.runner.scripts import EXECUTE
from nbdist.store import read_events
from nbdist.store.paths import write_private

_TORCHRUN, _PADDLE, _SBATCH = "torchrun", "fleetrun", "sbatch"
# places in a command line that a job fills, of characters that no shell minds
_MASTER, _NODE = "@master@", "@node@"
# a variable within a word: no argument has this character
_VARIABLE = re.compile("\0(\\w+)\0")

_MODULE = '''"""Runs the module {module} as python -m does: this launcher takes a file."""
import runpy

runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What was written. ``lines`` are a launcher's name and the command line that starts the run by it;
    ``remarks`` say what the lines cannot."""

    folder: Path
    files: tuple[Path, ...]
    lines: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]


def export(handle: RunHandle, folder: Path) -> Export:
    """Write the run into ``folder``. Raises UsageMistake, with nothing written, when it cannot be."""
    spec = handle.run.spec
    folder = folder.expanduser().absolute()
    program = _Program(spec, folder)
    texts = dict(program.files(handle))
    lines = []
    for launcher, command in program.commands():
        lines.append((launcher, program.line(launcher, command)))
        texts[folder / f"{launcher}.sh"] = program.shell_script(launcher, command)
    texts[folder / "job.sbatch"] = program.batch_script()
    lines.append((_SBATCH, f"sbatch {shlex.quote(str(folder / 'job.sbatch'))}"))
    _write(folder, texts)
    return Export(folder=folder, files=tuple(texts), lines=tuple(lines), remarks=tuple(program.remarks()))


def export_text(exported: Export) -> list[str]:
    """The export as lines for the user."""
    names = ", ".join(path.name for path in exported.files)
    lines = [f"[nbdist] {exported.folder}: {names}"]
    for launcher, command in exported.lines:
        lines += ["", f"# {launcher}", command]
    return [*lines, *([""] if exported.remarks else []), *(f"# {remark}" for remark in exported.remarks)]


class _Program:
    """How the program of a run is started elsewhere."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._args, self._asked = _without_secrets(spec.args)
        self._ranks = len(spec.here)
        self._is_cell = Path(spec.program).parts[-1:] == ("cell.py",) and spec.run_id in spec.program
        self._is_command = Path(spec.program) == EXECUTE
        self._script = folder / f"{spec.name}.py"
        self._left_out: list[int] = []

    def files(self, handle: RunHandle) -> Iterator[tuple[Path, str]]:
        """The program itself, where it is in no file of the user's."""
        if self._spec.session is not None:
            yield self._script, self._cells(handle)
        elif self._is_cell:
            try:
                yield self._script, handle.directory.cell.read_text(encoding="utf-8").lstrip("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageMistake(f"the cell of {handle.run_id} cannot be read: {error}") from None
        elif self._spec.module and self._spec.framework != "torch":
            yield self._script, _MODULE.format(module=self._spec.module)

    def _cells(self, handle: RunHandle) -> str:
        """The cells of a session in their order, without those that have raised in a rank."""
        begun: dict[int, tuple[int, ...]] = {}
        well: dict[int, set[int]] = {}
        for event in read_events(handle.directory.journal):
            if isinstance(event, CellStarted):
                begun[event.cell] = event.ranks
            elif isinstance(event, CellEnded) and event.outcome == "ok":
                well.setdefault(event.cell, set()).add(event.rank)
        parts = ["import os", ""]
        for number, ranks in begun.items():
            try:
                text = handle.directory.session_cell(number).read_text(encoding="utf-8").strip("\n")
                Program.parse(text)
            except (OSError, UnicodeDecodeError, SyntaxError):
                text = ""  # a command of IPython, which no script has
            if not text or not well.get(number, set()) >= set(ranks):
                self._left_out.append(number)
            elif len(ranks) < len(self._spec.ranks):
                condition = f'if int(os.environ["RANK"]) in {ranks}:'
                parts += [f"# cell {number}", condition, indent(text, "    "), ""]
            else:
                parts += [f"# cell {number}", text, ""]
        return "\n".join(parts)

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """The launchers that fit the program, and their command lines."""
        if self._spec.framework != "paddle":
            yield _TORCHRUN, self._torchrun()
        if self._spec.framework != "torch":
            yield _PADDLE, self._fleetrun()

    def remarks(self) -> Iterator[str]:
        if self._spec.framework == "torch":
            yield f"{_PADDLE}: not for a program of torch, to which it says nothing of its ranks"
        if self._spec.framework == "paddle":
            yield f"{_TORCHRUN}: not for a program of paddle, to which it says nothing of its ranks"
        if self._spec.backend != "auto" and self._spec.framework != "paddle":
            backend = self._spec.backend
            yield f"--backend {backend}: say it in the program:  init_process_group({backend!r})"
        for name, value in self._spec.environment.items():
            if not may_be_written(name, value):
                yield f"{name} was not kept, for it may be a secret: export it before you start the run"
        if names := ", ".join(one.name for one in self._spec.inputs if one.asked):
            yield f"{names} came from the notebook (--push): make them in the program"
        if self._left_out:
            numbers = ", ".join(map(str, self._left_out))
            yield f"left out, since they raised or are no Python: cells {numbers} of the session"
        for name in self._asked:
            yield f"{name} stands for an argument that may be a secret: export it before you start the run"

    def line(self, launcher: str, command: list[str]) -> str:
        """All of it in one line of a shell."""
        found = self._environment(launcher).items()
        unset = [f"-u {name}" for name, value in found if value is None]
        variables = " ".join([*unset, *(f"{name}={value}" for name, value in found if value is not None)])
        return f"cd {shlex.quote(self._spec.cwd)} && env {variables} {_joined(command)}"

    def shell_script(self, launcher: str, command: list[str]) -> str:
        head = self._head(launcher)
        return "\n".join(["#!/bin/bash", "set -e", *head, f"exec {_joined(command)}", ""])

    def batch_script(self) -> str:
        """A job of Slurm. The launcher runs once on each node."""
        spec = self._spec
        launcher = _PADDLE if spec.framework == "paddle" else _TORCHRUN
        gpus = [f"#SBATCH --gpus-per-node={self._ranks}"] if self._gpus() else []
        limit = [f"#SBATCH --time={max(1, round(spec.timeout / 60))}"] if spec.timeout else []
        return "\n".join(
            [
                "#!/bin/bash",
                f"#SBATCH --job-name={spec.name}",
                f"#SBATCH --nodes={spec.nodes}",
                "#SBATCH --ntasks-per-node=1",
                f"#SBATCH --cpus-per-task={self._ranks}",
                *gpus,
                *limit,
                "#SBATCH --output=%x-%j.out",
                "set -e",
                # Slurm says which GPUs they are
                *self._head(launcher, but="CUDA_VISIBLE_DEVICES" if gpus else ""),
                *self._steps(),
                "",
            ]
        )

    def _steps(self) -> Iterator[str]:
        make = self._fleetrun if self._spec.framework == "paddle" else self._torchrun
        if self._spec.nodes == 1:
            yield f"exec srun --kill-on-bad-exit=1 {_joined(make())}"
            return
        command = _joined(make(_MASTER, _NODE)).replace(_MASTER, "$1").replace(_NODE, "$SLURM_NODEID")
        yield 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
        # by its address: the name may lead elsewhere on another node
        yield "master=$(srun --nodes=1 --ntasks=1 -w \"$head\" hostname -i | awk '{print $1}')"
        yield f'exec srun --kill-on-bad-exit=1 bash -c {shlex.quote(f"exec {command}")} node "$master"'

    def _head(self, launcher: str, *, but: str = "") -> list[str]:
        lines = [
            f"unset {name}" if value is None else f"export {name}={value}"
            for name, value in self._environment(launcher).items()
            if name != but
        ]
        return [*lines, f"cd {shlex.quote(self._spec.cwd)}"]

    def _torchrun(self, master: str = "", node: str = "") -> list[str]:
        spec = self._spec
        command = [*_launcher(spec.python, _TORCHRUN, "torch.distributed.run")]
        if spec.nodes == 1:
            command.append("--standalone")
        else:
            host, _, port = spec.master.rpartition(":")
            command += [
                f"--nnodes={spec.nodes}",
                f"--node-rank={node or spec.node_rank}",
                f"--master-addr={master or host}",
                f"--master-port={port or DEFAULT_PORT}",
            ]
        command.append(f"--nproc-per-node={self._ranks}")
        if spec.retries:
            command.append(f"--max-restarts={spec.retries}")
        if spec.module:
            return [*command, "-m", spec.module, *self._args]
        return [*command, *(["--no-python"] if self._is_command else []), *self._words()]

    def _fleetrun(self, master: str = "", node: str = "") -> list[str]:
        spec = self._spec
        command = [*_launcher(spec.python, _PADDLE, "paddle.distributed.launch")]
        if spec.nodes > 1:
            host, _, port = spec.master.rpartition(":")
            command += [
                f"--nnodes={spec.nodes}",
                f"--rank={node or spec.node_rank}",
                f"--master={master or host}:{port or DEFAULT_PORT}",
            ]
        log_dir = spec.log_dir or str(self._folder / "log")
        command += [f"--nproc_per_node={self._ranks}", f"--log_dir={log_dir}"]
        return [*command, *([str(self._script), *self._args] if spec.module else self._words())]

    def _words(self) -> list[str]:
        """The program with its arguments."""
        if self._is_command:
            return list(self._args)
        return [str(self._script) if self._is_cell else self._spec.program, *self._args]

    def _gpus(self) -> list[str]:
        return [str(rank.device.index) for rank in self._spec.here if rank.device.kind == "gpu"]

    def _environment(self, launcher: str) -> Mapping[str, str | None]:
        """What is set for the launcher, each value as a word of a shell; None for what must not be set."""
        spec = self._spec
        path = [str(Path(spec.python).parent), '"$PATH"']
        found: dict[str, str | None] = {"PATH": ":".join([shlex.quote(path[0]), path[1]])}
        if self._is_cell or spec.module:
            found["PYTHONPATH"] = shlex.quote(":".join(self._python_path())) + '"${PYTHONPATH:+:$PYTHONPATH}"'
        # paddle's launcher takes an empty list for one of GPUs
        on_cpu = None if launcher == _PADDLE else "''"
        found["CUDA_VISIBLE_DEVICES"] = ",".join(self._gpus()) or on_cpu
        if self._gpus():
            found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        if self._ranks > 1:
            found["OMP_NUM_THREADS"] = '"${OMP_NUM_THREADS:-1}"'
        if spec.framework != "torch" and (spec.backend != "auto" or not self._gpus()):
            found["PADDLE_DISTRI_BACKEND"] = spec.backend if spec.backend != "auto" else "gloo"
        for name, value in spec.environment.items():
            found[name] = shlex.quote(value) if may_be_written(name, value) else _expanded(name)
        return found

    def _python_path(self) -> list[str]:
        """Where the cell found its modules: the notebook's folder, and what is no part of the
        interpreter."""
        own = (sys.prefix, sys.base_prefix)
        entries = [entry or self._spec.cwd for entry in self._spec.python_path] or [self._spec.cwd]
        return list(dict.fromkeys(entry for entry in entries if not entry.startswith(own)))


def _without_secrets(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments, with a variable in the place of each secret, and these variables."""
    words = list(args)
    names: list[str] = []
    # from the end: what stands before a secret stays where it is
    for secret in reversed(find_secrets(args)):
        name = "ARG_" + (re.sub(r"[^A-Z0-9]+", "_", secret.name.upper()).strip("_") or "SECRET")
        if name in names:
            name += f"_{len(names) + 1}"
        names.append(name)
        word = words[secret.word]
        words[secret.word] = f"{word[: secret.start]}\0{name}\0{word[secret.end :]}"
    return words, names[::-1]


def _joined(words: Sequence[str]) -> str:
    """A command line, in which variables stand within words."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if not _VARIABLE.search(word):
        return shlex.quote(word)
    pieces = _VARIABLE.split(word)
    return "".join(
        _expanded(piece) if odd % 2 else piece and shlex.quote(piece) for odd, piece in enumerate(pieces)
    )


def _expanded(name: str) -> str:
    """The value of a variable, as a word of a shell that ends where it is not set."""
    return f'"${{{name}?}}"'


def _launcher(python: str, name: str, module: str) -> list[str]:
    """The launcher beside the interpreter; where it is not there, the module that it is."""
    return [name] if os.access(Path(python).parent / name, os.X_OK) else [Path(python).name, "-m", module]


def _write(folder: Path, texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        if os.path.isfile(path) and path.read_text(encoding="utf-8", errors="replace") != text:
            raise UsageMistake(f"{path} is there already, and another: write  --to  and a folder of its own")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            write_private(path, text)
    except OSError as error:
        raise UsageMistake(
            f"{folder} cannot be written ({error.strerror}): write  --to  and another"
        ) from None
