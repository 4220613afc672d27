"""Files that start a run without nbdist: its script, and scripts for torchrun, fleetrun and Slurm."""

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
from nbdist.runner.handle import RunHandle, read_cell
from nbdist.runner.placement import DEFAULT_PORT
from nbdist.runner.scripts import EXECUTE
from nbdist.store import read_events
from nbdist.store.paths import write_private

_TORCHRUN, _PADDLE = "torchrun", "fleetrun"
# each with the framework that does not read its variables
_LAUNCHERS = {_TORCHRUN: "paddle", _PADDLE: "torch"}

_MODULE = '''"""Runs the module {module} as python -m does: this launcher takes a file."""
import runpy

runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Files that start a run. ``lines`` pair launchers with command lines; ``remarks`` are for the user."""

    folder: Path
    files: tuple[Path, ...]
    lines: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]


def export(handle: RunHandle, folder: Path) -> Export:
    """Write the run into ``folder``. Raises UsageMistake, with nothing written."""
    folder = folder.expanduser().absolute()
    program = _Program(handle.run.spec, folder)
    texts = dict(program.files(handle))
    for launcher in program.launchers:
        texts[folder / f"{launcher}.sh"] = program.shell_script(launcher)
    job = folder / "job.sbatch"
    texts[job] = program.batch_script()
    lines = [(launcher, program.line(launcher)) for launcher in program.launchers]
    lines.append(("sbatch", f"sbatch {shlex.quote(str(job))}"))
    _write(folder, texts)
    return Export(folder=folder, files=tuple(texts), lines=tuple(lines), remarks=tuple(program.remarks()))


def export_text(exported: Export) -> list[str]:
    """Return the export as lines for the user."""
    names = ", ".join(path.name for path in exported.files)
    lines = [f"[nbdist] {exported.folder}: {names}"]
    for launcher, command in exported.lines:
        lines += ["", f"# {launcher}", command]
    return [*lines, *([""] if exported.remarks else []), *(f"# {remark}" for remark in exported.remarks)]


class _Program:
    """The program of a run, and the texts that start it elsewhere."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._args, self._missing = _shell_words(spec.args)
        self._ranks = len(spec.here)
        self._is_cell = Path(spec.program).parts[-1:] == ("cell.py",) and spec.run_id in spec.program
        self._is_command = Path(spec.program) == EXECUTE
        self._script = folder / f"{spec.name}.py"
        self._left_out: list[int] = []
        self.launchers = [name for name, other in _LAUNCHERS.items() if spec.framework != other]

    def files(self, handle: RunHandle) -> Iterator[tuple[Path, str]]:
        """Yield the program itself, unless it lies in a file of the user's."""
        if self._spec.session is not None:
            yield self._script, self._cells(handle)
        elif self._is_cell:
            yield self._script, read_cell(handle).lstrip("\n")
        elif self._spec.module and self._spec.framework != "torch":
            yield self._script, _MODULE.format(module=self._spec.module)

    def _cells(self, handle: RunHandle) -> str:
        """Return the cells of a session in their order, without those that raised in a rank."""
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
                continue
            if len(ranks) < len(self._spec.ranks):
                text = f'if int(os.environ["RANK"]) in {ranks}:\n{indent(text, "    ")}'
            parts += [f"# cell {number}", text, ""]
        return "\n".join(parts)

    def remarks(self) -> Iterator[str]:
        spec = self._spec
        for launcher, framework in _LAUNCHERS.items():
            if launcher not in self.launchers:
                yield f"{launcher} cannot start a program of {framework}, which does not read its variables"
        if spec.backend != "auto" and spec.framework != "paddle":
            yield f"--backend {spec.backend}: write in the program  init_process_group({spec.backend!r})"
        for name, value in spec.environment.items():
            if not may_be_written(name, value):
                yield f"{name} was not stored because it may be a secret: export it before you start the run"
        if names := ", ".join(pushed.name for pushed in spec.inputs if pushed.asked):
            yield f"{names} came from the notebook (--push): make them in the program"
        if self._left_out:
            numbers = ", ".join(map(str, self._left_out))
            yield f"cells {numbers} of the session are left out: they raised or are not Python"
        for name in self._missing:
            yield f"{name} stands for an argument that may be a secret: export it before you start the run"

    def line(self, launcher: str) -> str:
        variables = self._environment(launcher).items()
        words = [f"-u {name}" for name, value in variables if value is None]
        words += [f"{name}={value}" for name, value in variables if value is not None]
        return f"{self._cd()} && env {' '.join(words)} {self._command(launcher)}"

    def shell_script(self, launcher: str) -> str:
        lines = ["#!/bin/bash", "set -e", *self._exports(launcher), self._cd()]
        return "\n".join([*lines, f"exec {self._command(launcher)}", ""])

    def batch_script(self) -> str:
        """Return a job of Slurm that runs the launcher once on each node."""
        spec, launcher = self._spec, self.launchers[0]
        gpus = [f"#SBATCH --gpus-per-node={self._ranks}"] if self._gpus() else []
        limit = [f"#SBATCH --time={max(1, round(spec.timeout / 60))}"] if spec.timeout else []
        lines = [
            "#!/bin/bash",
            f"#SBATCH --job-name={spec.name}",
            f"#SBATCH --nodes={spec.nodes}",
            "#SBATCH --ntasks-per-node=1",
            f"#SBATCH --cpus-per-task={self._ranks}",
            *gpus,
            *limit,
            "#SBATCH --output=%x-%j.out",
            "set -e",
            # Slurm sets the GPUs
            *self._exports(launcher, but="CUDA_VISIBLE_DEVICES" if gpus else ""),
            self._cd(),
        ]
        srun = "exec srun --kill-on-bad-exit=1"
        if spec.nodes == 1:
            return "\n".join([*lines, f"{srun} {self._command(launcher)}", ""])
        command = shlex.quote(f"exec {self._command(launcher, '$1', '$SLURM_NODEID')}")
        lines += [
            'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            # the name may mean another address on another node
            "master=$(srun --nodes=1 --ntasks=1 -w \"$head\" hostname -i | awk '{print $1}')",
            f'{srun} bash -c {command} node "$master"',
        ]
        return "\n".join([*lines, ""])

    def _cd(self) -> str:
        return f"cd {shlex.quote(self._spec.cwd)}"

    def _exports(self, launcher: str, *, but: str = "") -> list[str]:
        variables = self._environment(launcher).items()
        lines = {n: f"unset {n}" if value is None else f"export {n}={value}" for n, value in variables}
        return [line for name, line in lines.items() if name != but]

    def _command(self, launcher: str, head: str = "", node: str = "") -> str:
        """Return a launcher's command line; a job has words of its own for node 0 and the node's number."""
        host, _, port = self._spec.master.rpartition(":")
        place = (head or shlex.quote(host), port or str(DEFAULT_PORT), node or str(self._spec.node_rank))
        words = self._torchrun(*place) if launcher == _TORCHRUN else self._fleetrun(*place)
        return " ".join([*words, *self._args])

    def _torchrun(self, host: str, port: str, node: str) -> Iterator[str]:
        spec = self._spec
        yield self._launcher(_TORCHRUN, "torch.distributed.run")
        if spec.nodes == 1:
            yield "--standalone"
        else:
            yield f"--nnodes={spec.nodes} --node-rank={node} --master-addr={host} --master-port={port}"
        yield f"--nproc-per-node={self._ranks}"
        if spec.retries:
            yield f"--max-restarts={spec.retries}"
        if self._is_command or spec.python_flags:
            yield "--no-python"
        if spec.python_flags:
            yield shlex.join([spec.python, "-u", *spec.python_flags])
        if not self._is_command:
            yield f"-m {shlex.quote(spec.module)}" if spec.module else self._file()

    def _fleetrun(self, host: str, port: str, node: str) -> Iterator[str]:
        spec = self._spec
        yield self._launcher(_PADDLE, "paddle.distributed.launch")
        if spec.nodes > 1:
            yield f"--nnodes={spec.nodes} --rank={node} --master={host}:{port}"
        log_dir = shlex.quote(spec.log_dir or str(self._folder / "log"))
        yield f"--nproc_per_node={self._ranks} --log_dir={log_dir}"
        if not self._is_command:
            yield self._file()

    def _launcher(self, name: str, module: str) -> str:
        """Return the launcher beside the interpreter, else its module."""
        python = Path(self._spec.python)
        installed = os.access(python.parent / name, os.X_OK)
        return name if installed else f"{shlex.quote(python.name)} -m {module}"

    def _file(self) -> str:
        own = self._is_cell or self._spec.module
        return shlex.quote(str(self._script) if own else self._spec.program)

    def _gpus(self) -> list[str]:
        return [str(rank.device.index) for rank in self._spec.here if rank.device.kind == "gpu"]

    def _environment(self, launcher: str) -> Mapping[str, str | None]:
        """Return the launcher's variables, each value as a word of a shell; None for one to unset."""
        spec, gpus = self._spec, self._gpus()
        variables: dict[str, str | None] = {"PATH": f'{shlex.quote(str(Path(spec.python).parent))}:"$PATH"'}
        if self._is_cell or spec.module:
            # the cell's sys.path without the interpreter's own folders
            entries = [entry or spec.cwd for entry in spec.python_path] or [spec.cwd]
            path = [entry for entry in entries if not entry.startswith((sys.prefix, sys.base_prefix))]
            words = shlex.quote(":".join(dict.fromkeys(path)))
            variables["PYTHONPATH"] = words + '"${PYTHONPATH:+:$PYTHONPATH}"'
        # paddle's launcher takes an empty list for one of GPUs
        on_cpu = None if launcher == _PADDLE else "''"
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpus) or on_cpu
        if gpus:
            variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        if self._ranks > 1:
            variables["OMP_NUM_THREADS"] = '"${OMP_NUM_THREADS:-1}"'
        if spec.framework != "torch" and (spec.backend != "auto" or not gpus):
            variables["PADDLE_DISTRI_BACKEND"] = spec.backend if spec.backend != "auto" else "gloo"
        for name, value in spec.environment.items():
            variables[name] = shlex.quote(value) if may_be_written(name, value) else _expanded(name)
        return variables


def _shell_words(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments as words of a shell, each secret replaced by a variable, and these variables."""
    words: list[str] = []
    names: list[str] = []
    secrets = find_secrets(args)
    for number, arg in enumerate(args):
        word, end = "", 0
        for secret in (each for each in secrets if each.word == number):
            name = "ARG_" + (re.sub(r"[^A-Z0-9]+", "_", secret.name.upper()).strip("_") or "SECRET")
            names.append(f"{name}_{len(names) + 1}" if name in names else name)
            before = arg[end : secret.start]
            word += (before and shlex.quote(before)) + _expanded(names[-1])
            end = secret.end
        words.append(word + shlex.quote(arg[end:]) if arg[end:] or not word else word)
    return words, names


def _expanded(name: str) -> str:
    """Return a shell's word for the value of a variable; the shell ends where it is not set."""
    return f'"${{{name}?}}"'


def _write(folder: Path, texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        if os.path.isfile(path) and path.read_text(encoding="utf-8", errors="replace") != text:
            raise UsageMistake(f"{path} exists with other contents: write  --to  and another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            write_private(path, text)
    except OSError as error:
        raise UsageMistake(
            f"{folder} cannot be written ({error.strerror}): write  --to  and another folder"
        ) from None
