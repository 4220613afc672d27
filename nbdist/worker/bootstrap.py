"""Runs the program of a rank as ``__main__``, and records how it ended.

The program sees no difference to ``python program.py``: ``__main__``, ``__file__``, ``sys.argv``,
``inspect.getsource``, pickling, spawned children, tracebacks and exit codes are the same.
"""

from __future__ import annotations

import builtins
import faulthandler
import os
import sys
from _frozen_importlib_external import SourceFileLoader  # importlib.machinery's, a millisecond sooner

from nbdist.worker import error_report, framework_hooks, main_thread, stack_answers
from nbdist.worker.framework_hooks import (
    after_import,
    has_joined,
    join_cluster,
    mend_ends,
    note_import,
    paddle_looks,
    prefer_backend,
    torch_looks,
    wait_for_debugger,
)
from nbdist.worker.main_thread import signal
from nbdist.worker.order import ERRORED, FINISHED, FINISHED_ALONE, HOLDS, Channel, Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType, TracebackType
    from typing import Any

_print = builtins.print
_HERE = os.path.dirname(os.path.abspath(__file__))
_ADAPTED = (
    "tqdm.notebook",
    "torch.utils.tensorboard.writer",
    "tensorboardX.writer",
    "visualdl.writer.writer",
    "wandb.sdk.wandb_run",
    "swanlab.data.run.main",
    "swanlab.sdk.internal.run",
    "trackio.run",
    "mlflow.tracking._tracking_service.client",
)
_ROOT = os.path.dirname(os.path.dirname(_HERE))


def main() -> None:
    """Receive the order, and run its program."""
    channel = Channel()
    run(channel, Order.receive(channel))


def run(channel: Channel, order: Order, begin: Callable[[], None] = lambda: None) -> None:
    """Run the rank's program; call ``begin`` right before its first statement. Raises as the program."""
    faulthandler.enable()
    stack_answers.listen(os.path.dirname(order.error_file))
    reserve = error_report.Reserve(order.error_file)
    print_whole_lines()
    _change_libraries()
    show_outputs()
    sys.argv[:] = [order.program, *order.args]
    first = os.getcwd() if order.module else os.path.dirname(os.path.realpath(order.program))
    sys.path[:] = python_path(order.python_path, first)
    with open(order.program, "rb") as file:
        code, last = _compiled(file.read(), order.program)
    framework_hooks.watch()
    module = _make_main(order.program)
    begin()
    try:
        if order.inputs:
            from nbdist.values.box import bring

            bring(order.inputs, module.__dict__)
        if order.module:
            _join_package(module, order)
        exec(code, module.__dict__)
        if last is not None and (value := eval(last, module.__dict__)) is not None:
            from nbdist.worker.display import show_last

            show_last(value)
        _keep_at_end(order, module)
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            _keep_at_end(order, module)
            _finish(channel, order)
        else:
            _report(channel, order, reserve, leaving)
        raise
    except BaseException as error:
        hold_after(error)
        try:
            _report(channel, order, reserve, error, then=_hide_frames)
        except BaseException:  # noqa: BLE001 - a handler of the program raised before signals were blocked
            _report(channel, order, reserve, error, then=_hide_frames)
        raise
    finally:
        main_thread.over = True
        stack_answers.call_used("debugger", "leave")
    _finish(channel, order)


def hold_after(error: BaseException) -> None:
    """Let a debugger hold a rank that has raised, where the run is for that."""
    if os.environ.get(HOLDS) == "errors":
        _late("debugger", "post_mortem")(error, strip(error.__traceback__))


def _keep_at_end(order: Order, module: ModuleType) -> None:
    """Show the open figures, and store the variables that the notebook asked for."""
    stack_answers.call_used("figures", "show")
    if order.pull:
        from nbdist.worker.result_files import keep_variables

        keep_variables(order.pull.split(","), module.__dict__)


def _late(module: str, name: str) -> Callable[..., Any]:
    """Return a function of this package that imports its module when it is called."""

    def call(*given: Any, **named: Any) -> Any:
        return getattr(__import__(f"nbdist.worker.{module}", fromlist=[name]), name)(*given, **named)

    return call


def _change_libraries() -> None:
    """Change libraries once the program has imported them."""
    after_import("multiprocessing.spawn", _late("definitions", "install"))
    # paddle replaces faulthandler's handlers; enabled after paddle's, they print the stacks, and call those
    after_import("paddle.base.core", lambda _: faulthandler.disable())
    after_import("paddle", lambda _: faulthandler.enable())
    after_import("paddle.base.core", paddle_looks)
    after_import("torch.distributed.rendezvous", torch_looks)
    after_import("torch.distributed.distributed_c10d", prefer_backend)
    mend_ends()
    after_import("jax._src.clusters.cluster", join_cluster)
    if not os.environ.get("PYTHONBREAKPOINT"):  # which may name another debugger, or none
        sys.breakpointhook = _late("debugger", "stop")
    after_import("pdb", lambda pdb: vars(pdb).update(set_trace=_late("debugger", "stop")))
    if os.environ.get(HOLDS) == "errors":
        after_import("torch.distributed.distributed_c10d", wait_for_debugger)
    for name in ("torch", "paddle", "jax"):
        note_import(name, os.path.join(os.environ["NBDIST_RANK_DIR"], "importing"))
    for name in ("torch._utils", "paddle.io.dataloader.worker"):
        after_import(name, error_report.send_names)
    for name in _ADAPTED:
        after_import(name, _late("adaptations", "adapt"))
    for name in ("torch", "paddle"):
        after_import(name, _late("step_hooks", "watch"))


def _finish(channel: Channel, order: Order) -> None:
    stack_answers.call_used("step_hooks", "write")
    stack_answers.tell_history_at_the_end(os.path.dirname(order.error_file))
    channel.say(FINISHED if has_joined() else FINISHED_ALONE)


def _compiled(text: bytes, path: str) -> tuple[CodeType, CodeType | None]:
    """Return the code of the program; that of a cell in rank 0 as ``split_last`` does."""
    run = os.environ.get("NBDIST_RUN_DIR", "")
    if os.environ.get("NBDIST_RANK") != "0" or path != os.path.join(run, "cell.py"):
        return compile(text, path, "exec", dont_inherit=True), None
    return split_last(text, path)


def split_last(text: bytes, path: str, flags: int = 0) -> tuple[CodeType, CodeType | None]:
    """Return a cell's code, and apart a last expression that a notebook would show. Raises SyntaxError."""
    import _ast

    tree: Any = compile(text, path, "exec", _ast.PyCF_ONLY_AST | flags, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, _ast.Expr) or _ends_silently(text, last):
        return compile(tree, path, "exec", flags, dont_inherit=True), None
    tree.body.pop()
    shown: Any = _ast.Expression(last.value)
    body = compile(tree, path, "exec", flags, dont_inherit=True)
    return body, compile(shown, path, "eval", flags, dont_inherit=True)


def _ends_silently(text: bytes, last: Any) -> bool:
    """Return whether a semicolon stands behind the last statement, as in a notebook."""
    lines = text.splitlines(keepends=True)[last.end_lineno - 1 :]
    return b"".join(lines)[last.end_col_offset :].lstrip(b" \t\f").startswith(b";")


def print_whole_lines() -> None:
    """Let ``print`` write whole lines, also in forks. Output is unbuffered, so that a killed rank loses
    nothing; the built-in ``print`` then writes each argument by itself, and lines of processes mix. A log is
    UTF-8, whatever the locale and PYTHONIOENCODING say."""
    builtins.print = _whole_line_print
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def show_outputs() -> None:
    """Give the program ``display`` and ``update_display``; show its figures where the notebook shows them."""
    for name in ("display", "update_display"):
        setattr(builtins, name, _late("display", name))
    after_import("IPython.core.display_functions", _late("display", "replace_in_ipython"))
    if "NBDIST_FIGURES" in os.environ and os.environ.get("MPLBACKEND") == "agg":
        # not by MPLBACKEND, which processes of the program inherit, and they may not find nbdist
        backend = {"backend": "module://nbdist.worker.figures"}
        after_import("matplotlib", lambda matplotlib: matplotlib.rcParams.update(backend))


def _whole_line_print(
    *values: object, sep: Any = " ", end: Any = "\n", file: Any = None, flush: bool = False
) -> None:
    out = sys.stdout
    space, newline = " " if sep is None else sep, "\n" if end is None else end
    if file is not None or out is None or not isinstance(space, str) or not isinstance(newline, str):
        _print(*values, sep=sep, end=end, file=file, flush=flush)  # it raises the right error
        return
    out.write(space.join([str(value) for value in values]) + newline)
    if flush:
        out.flush()


def python_path(given: list[str], first: str) -> list[str]:
    """Return the program's sys.path: the given one, or the interpreter's with another first entry."""
    own = [] if getattr(sys.flags, "safe_path", False) else [first]  # -P and -I
    path = given or [*own, *sys.path[1:]]
    # a spawned child also imports nbdist by it
    return path if _ROOT in path else [*path, _ROOT]


def _make_main(program: str) -> ModuleType:
    """Return a fresh ``__main__`` as the interpreter makes it for a script."""
    module = type(sys)("__main__")
    module.__file__ = program
    module.__loader__ = SourceFileLoader("__main__", program)
    vars(module).update(__builtins__=builtins, __cached__=None)
    # the module that stood there must stay alive: clearing it would clear names that still run
    sys.modules["__nbdist_main__"] = sys.modules["__main__"]
    sys.modules["__main__"] = module
    return module


def _join_package(main: ModuleType, order: Order) -> None:
    """Set the spec and the package, which is imported first, as ``python -m`` does."""
    from importlib import import_module, util

    spec = util.spec_from_file_location(order.module, order.program)
    assert spec is not None, "the program is a Python file"
    main.__spec__, main.__package__ = spec, spec.parent
    if spec.parent:
        import_module(spec.parent)


def _report(
    channel: Channel,
    order: Order,
    reserve: error_report.Reserve,
    error: BaseException,
    then: Callable[[], None] = lambda: None,
) -> None:
    """Tell the supervisor that the program raised, before the peers of this rank fail, then write the report.
    Signals are blocked: torch's handler for a dead DataLoader worker raises wherever the main thread is."""
    mask = _hold_signals_back()
    try:
        channel.say(ERRORED)
        take_out(error)
        error_report.write(order.error_file, error, strip(error.__traceback__), reserve)
        if not isinstance(error, KeyboardInterrupt):
            stack_answers.tell_history(os.path.dirname(order.error_file))
        then()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _hold_signals_back() -> set[int]:
    """Block every signal; return the mask before. An error of a handler meanwhile is dropped."""
    mask: set[int] | None = None
    while True:
        try:
            if mask is None:
                mask = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())}
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        except BaseException:  # noqa: BLE001 - whatever a handler of the program raises
            continue
        return mask


def _hide_frames() -> None:
    """Let the traceback start in the program, whatever hook prints it (torch and rich have their own)."""
    hook = sys.excepthook

    def from_the_program(kind: Any, error: BaseException, trace: TracebackType | None) -> None:
        stripped = strip(trace)
        hook(kind, error.with_traceback(stripped), stripped)

    sys.excepthook = from_the_program


def take_out(error: BaseException | None) -> None:
    """Drop this package's inner frames: stand-ins for a framework's functions, the interrupting handler."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        for step in main_thread.steps_of(error.__traceback__):
            after = step.tb_next
            while after is not None and after.tb_next is not None and _is_ours(after):
                after = None if _is_handler(after) else after.tb_next
            step.tb_next = after
        error = error.__cause__ or error.__context__


def _is_ours(trace: TracebackType) -> bool:
    code = trace.tb_frame.f_code
    # a stand-in's code has the file of its function
    return os.path.dirname(code.co_filename) == _HERE or "real_call" in code.co_freevars


def _is_handler(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code is main_thread.beat.__code__


def strip(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the program on, without the handler that interrupted it."""
    at = next((step for step in main_thread.steps_of(trace) if not _is_ours(step)), None)
    for step in main_thread.steps_of(at):
        if step.tb_next is not None and _is_handler(step.tb_next):
            step.tb_next = None
    return at if at is not None else trace
