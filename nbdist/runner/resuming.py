"""A run that resumes another: its program, options, inputs and checkpoints, planned once more."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nbdist import config
from nbdist.errors import UnknownRun, UsageMistake
from nbdist.model import Run, RunSpec
from nbdist.model.plan import Plan
from nbdist.options import Options, parse_words, program_words, recorded_options
from nbdist.privacy import MASK
from nbdist.runner.handle import RunHandle, read_cell, store
from nbdist.runner.planning import plan, plan_script
from nbdist.runner.pushing import Namespace
from nbdist.store.run_store import read_spec
from nbdist.text import say
from nbdist.worker.checkpoints import finished
from nbdist.worker.result_files import CALL


def resume_plan(
    handle: RunHandle,
    changes: Sequence[str] = (),
    *,
    environ: Mapping[str, str] | None = None,
    notebook: str = "",
    cell_id: str = "",
    namespace: Namespace | None = None,
) -> tuple[Options, Plan]:
    """Plan a run that resumes an ended one, with ``changes`` of its options, as words, typed in ``notebook``
    and ``cell_id`` (else in the run's). ``namespace`` has the inputs that the run did not keep. Raises as
    ``plan``."""
    run, directory = handle.run, handle.directory
    spec = run.spec
    if not run.state.terminal:
        raise UsageMistake(
            f"{run.label} still runs: see it with  %dist_attach {run.label} , or stop it first with  "
            f"%dist_stop {run.label}"
        )
    if spec.session is not None:
        raise UsageMistake(f"{run.label} was a session of live ranks: begin another one with  %%ranks")
    chosen = parse_words(changes, recorded_options(spec))
    if chosen.sweep:
        raise UsageMistake(f"--sweep does not work here, {run.label} was one run: leave it out")
    given = dict(chosen.env)
    for name, value in spec.environment.items():
        if value == MASK and name not in given:
            raise UsageMistake(
                f"--env {name} was not stored because it may be a secret: add  --env {name}=VALUE"
            )
    chosen = replace(chosen, checkpoints=chosen.checkpoints or spec.checkpoints)
    place = {"notebook": notebook or spec.notebook, "cell_id": cell_id if notebook else spec.cell_id}
    if words := program_words(replace(spec, args=chosen.args)):
        planned = plan_script(chosen, words, cwd=spec.cwd, environ=environ, **place)
    else:
        kept = directory.inputs if spec.inputs and directory.inputs.exists() else None
        if spec.inputs and kept is None:
            chosen = replace(chosen, push=_names(spec, run.label, namespace))
        planned = plan(
            chosen,
            cell=read_cell(handle),
            cwd=spec.cwd,
            python_path=spec.python_path,
            environ=environ,
            namespace=None if kept is not None else namespace,
            **place,
        )
        if kept is not None:
            planned = replace(
                planned,
                spec=replace(planned.spec, inputs=spec.inputs),
                write_inputs=lambda path: _copy(kept, path),
            )
    own = replace(planned.spec, resumed=run.run_id, sweep=spec.sweep)
    return chosen, replace(planned, spec=own, notes=(*planned.notes, *_notes(run, own)))


def check_checkpoints(spec: RunSpec) -> None:
    """Raise UsageMistake for a directory of checkpoints into which a running run writes."""
    # a run's own directory is new; machines started by hand share a chosen one
    if not os.path.isdir(spec.checkpoints) or (spec.nodes > 1 and not spec.engine):
        return
    for directory in store().directories():
        with contextlib.suppress(UnknownRun):
            if read_spec(directory).checkpoints != spec.checkpoints:
                continue
            run = RunHandle(directory).run
            if not run.state.terminal:
                raise UsageMistake(
                    f"--checkpoints {spec.checkpoints} is in use by {run.label}: stop it first with  "
                    f"%dist_stop {run.label} , or name another directory"
                )


def _names(spec: RunSpec, label: str, namespace: Namespace | None) -> tuple[str, ...]:
    """Return the names that were pushed, to push them again. Raises UsageMistake where that is impossible."""
    names = tuple(pushed.name for pushed in spec.inputs if pushed.asked)
    if CALL in names:
        raise UsageMistake(
            f"the function that {label} ran was deleted at its end: call  nbdist.run  again with  "
            f"checkpoints={spec.checkpoints!r} , and with  keep_inputs=True  to keep it"
        )
    missing = [name for name in names if namespace is None or not namespace.has(name)]
    if missing:
        raise UsageMistake(
            f"{label} needs {', '.join(missing)} from its notebook again: make it in the notebook, and run  "
            f"%dist_resume {label}  there"
        )
    return names


def _copy(kept: Path, path: Path) -> None:
    try:
        os.link(kept, path)
    except OSError:  # a file system without links
        shutil.copyfile(kept, path)
        path.chmod(0o600)


def _notes(run: Run, own: RunSpec) -> list[str]:
    """Return notes on the checkpoint that the run resumes from, and on what changed since."""
    language = config.language()
    latest = next(iter(finished(own.checkpoints)), "")
    place = {"run": run.label, "checkpoint": os.path.basename(latest), "directory": own.checkpoints}
    notes = [say("runs.resumed" if latest else "runs.resumed-without", language, **place)]
    before = {pushed.name: pushed.digest for pushed in run.spec.inputs}
    changed = [new.name for new in own.inputs if new.digest != before.get(new.name, new.digest)]
    if program_words(own):
        with contextlib.suppress(OSError):
            if os.stat(own.program).st_mtime > run.spec.created:
                changed.append(os.path.basename(own.program))
    if changed:
        notes.append(say("runs.resumed-changed", language, run=run.label, names=", ".join(changed)))
    return notes
