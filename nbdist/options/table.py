"""The options of ``%%distributed``: the parser of each value, and the table of all."""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from nbdist.engines.options import parse_address, parse_slurm
from nbdist.errors import UsageMistake
from nbdist.frameworks.command_line import without_interpreter
from nbdist.model.sweep import Points
from nbdist.privacy import MASK, masked_text
from nbdist.text import Both, both


def counted(flag: str, instead: str, *, least: int = 0) -> Callable[[str], int]:
    """Return a parser of a number behind ``flag``; its UsageMistake has what to write ``instead``."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise UsageMistake(f"{flag} {text}: {instead}")
        return int(text)

    return parse


count_of_nodes = counted("--nodes", "write a number of nodes, for example  --nodes 2", least=1)
node_rank = counted("--node-rank", "number the machines from 0:  --node-rank 0")
retries = counted("--retries", "write a number of times, for example  --retries 2")
each = counted("--each", "write how many ranks each run of a sweep has:  --each 1", least=1)

_STANDALONE = "-"  # another launcher's ``--standalone``: no meeting, despite any address


def address(text: str) -> str:
    host, colon, port = text.rpartition(":") if ":" in text else (text, "", "")
    good = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", host) or (colon and not host)
    if text != _STANDALONE and (not good or (colon and not (port.isdigit() and int(port) < 65535))):
        raise UsageMistake(f"--master {text}: write the address of node 0:  --master 10.0.0.1:29500")
    return text


def addresses(text: str) -> tuple[str, ...]:
    given = tuple(part.strip() for part in text.split(",") if part.strip())
    if not given or len(set(given)) < len(given):
        raise UsageMistake(f"--ips {text}: write each machine's address once:  --ips 10.0.0.1,10.0.0.2")
    return given


def joined_address(parts: Sequence[str]) -> str:
    """Join an address from one piece or several: torchrun has a flag for each half."""
    if not parts or _STANDALONE in parts:
        return ""
    split = [part.rpartition(":")[::2] if ":" in part else (part, "") for part in parts]
    host = next((host for host, _ in reversed(split) if host), "")
    port = next((port for _, port in reversed(split) if port), "")
    return f"{host}:{port}"


_MOST_RANKS = 1024


def nproc(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise UsageMistake(f"-n {text} is not a number of ranks: write  -n 2") from None
    if number > _MOST_RANKS:
        raise UsageMistake(f"-n {number} is more than the {_MOST_RANKS} ranks of a machine: write  -n 2")
    if number < 1:
        raise UsageMistake(f"-n {number} starts no rank: write  -n 1  or more")
    return number


def gpus(text: str) -> tuple[int, ...] | str:
    if text == "all":
        return "all"
    parts = [part.strip().partition("-") for part in text.strip("\"'").split(",") if part.strip()]
    try:
        ranges = [range(int(first), int(last or first) + 1)[: _MOST_RANKS + 1] for first, _, last in parts]
    except ValueError:
        ranges = []
    ids = tuple(chain.from_iterable(ranges))
    if not ids or min(ids) < 0:
        raise UsageMistake(
            f"--gpus {text}: give GPU ids as nvidia-smi shows them:  --gpus 0,1  or  --gpus all"
        )
    if len(set(ids)) < len(ids):
        raise UsageMistake(f"--gpus {text} names a GPU twice: give each id once")
    return ids


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str, flag: str = "--timeout") -> float:
    """Parse seconds from ``90``, ``90s``, ``5m``, ``1.5h`` or ``1h30m``. Raises UsageMistake, of ``flag``."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        raise UsageMistake(f"{flag} {text}: write a time such as  {flag} 90s, 5m  or  1h30m")
    return seconds


wait = partial(parse_duration, flag="--wait")


def until(text: str) -> str:
    """Return a time from the start (``11h40m``), a time of the day (``18:00``) or ``auto``, as typed."""
    if text != "auto" and not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", text):
        try:
            parse_duration(text)
        except UsageMistake:
            raise UsageMistake(
                f"--until {text}: write a time from the start or of the day:  --until 11h40m  or  18:00"
            ) from None
    return text


def notify(text: str) -> str:
    if not re.match(r"https?://[^\s/]+|mailto:[^\s@]+@[^\s@]+$", text):
        raise UsageMistake(
            f"--notify {_without_value(text)}: write  --notify https://…  or  mailto:you@example.org"
        )
    return text


def hang_after(text: str) -> float:
    """Parse seconds; 0 for ``off``."""
    if text in ("off", "0"):
        return 0.0
    try:
        return parse_duration(text)
    except UsageMistake:
        raise UsageMistake(
            f"--hang-after {text}: write a time such as  --hang-after 90s  or 5m, or  --hang-after off"
        ) from None


_BYTES = {"M": 1e6, "G": 1e9, "T": 1e12}


def memory(text: str) -> int:
    """Parse bytes from ``16G``, ``512M`` or ``1.5T``. Raises UsageMistake."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([MGT])B?", text.strip(), re.IGNORECASE)
    if match is None or not float(match[1]):
        raise UsageMistake(f"--memory {text}: write how much each rank may have:  --memory 16G  or  512M")
    return int(float(match[1]) * _BYTES[match[2].upper()])


def env(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
        raise UsageMistake(f"--env {_without_value(text)}: write  --env NAME=VALUE")
    return key, value


def _without_value(text: str) -> str:
    """Return ``text`` without a possible value: a message is kept with the notebook."""
    name = re.match(r"[\w.\-]*", text)
    return text if name is None or name[0] == text else f"{name[0]}{text[name.end()]}{MASK}"


def args(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageMistake(f'--args {masked_text(text)!r} ({error}): write  --args "--lr 0.1"') from None


def python_flags(text: str) -> tuple[str, ...]:
    flags, rest = without_interpreter(["python", *args(text), "train.py"])
    if rest != ["train.py"]:
        raise UsageMistake(f'--python-flags {text!r}: write options of Python:  --python-flags "-W error"')
    return tuple(flags)


def push(text: str) -> tuple[str, ...]:
    """Parse the names, or ``auto`` alone. Raises UsageMistake."""
    return _names(
        text, f"--push {text}: write names of the notebook, without spaces:  --push df,cfg  or  --push auto"
    )


def pull(text: str) -> tuple[str, ...]:
    return _names(text, f"--pull {text}: write names of results, without spaces:  --pull acc,model")


def _names(text: str, mistake: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names or any(not name.isidentifier() or keyword.iskeyword(name) for name in names):
        raise UsageMistake(mistake)
    return tuple(dict.fromkeys(names))


def sweep(text: str) -> Points:
    """Parse a point for each value, ``lr=0.1,0.01``, or for several names, ``lr,width=0.1,64 0.01,128``."""
    listed, equals, values = text.partition("=")
    names = [name.strip() for name in listed.split(",")]
    rows = [row.split(",") for row in values.split()] if len(names) > 1 else [[v] for v in values.split(",")]
    rows = [[value.strip() for value in row] for row in rows]
    if not equals or not rows or not all(all(row) for row in rows):
        raise UsageMistake(
            f"--sweep {text}: write a name and its values, without spaces:  --sweep lr=0.1,0.01"
        )
    if wrong := next((row for row in rows if len(row) != len(names)), None):
        raise UsageMistake(
            f"--sweep {text} has {len(names)} names, and {','.join(wrong)} is {len(wrong)} value"
            f"{'s' * (len(wrong) != 1)}: write a value for each name, and spaces between the points:  "
            '--sweep "lr,width=0.1,64 0.01,128"'
        )
    for name in names:
        _check_swept(name, f"--sweep {text}")
    if len(set(names)) < len(names):
        raise UsageMistake(f"--sweep {text} has a name twice: give each once")
    if len(set(map(tuple, rows))) < len(rows):
        raise UsageMistake(
            f"--sweep {text} has {'a value' if len(names) == 1 else 'a point'} twice: give each once"
        )
    return tuple(dict(zip(names, row, strict=True)) for row in rows)


def listed_points(points: Sequence[Mapping[str, object]]) -> Points:
    """Parse the points of a call. Raises UsageMistake."""
    if not points or not all(point and isinstance(point, Mapping) for point in points):
        raise UsageMistake(
            "sweep: write a list of points, each a dict of names and values:  "
            'sweep=[{"lr": 0.1, "width": 64}]'
        )
    return tuple({name: _swept(name, value) for name, value in point.items()} for point in points)


def _swept(name: str, value: object) -> str:
    _check_swept(name, f"sweep with {name}={value!r}")
    # a number of numpy's
    plain = value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value
    if not isinstance(plain, (bool, int, float, str, type(None))) or "," in str(plain):
        raise UsageMistake(
            f"sweep has {name}={value!r}: give a number, a text without commas, True, False or None"
        )
    return str(plain)


def _check_swept(name: str, typed: str) -> None:
    """Raise UsageMistake where a program could not read ``nbdist.params.name``."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or keyword.iskeyword(name) or hasattr(dict, name):
        raise UsageMistake(
            f"{typed} has a name that cannot be read as nbdist.params.{name}: write another name, of "
            "letters, digits and underscores, such as  --sweep learning_rate=0.1,0.01"
        )


def ranks_to_show(text: str, flag: str = "--show-ranks") -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageMistake(f"{flag} {text}: write ranks of this machine:  {flag} 0,1") from None


def profile(text: str) -> str:
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) < int(last)):
        raise UsageMistake(f"--profile {text}: write the steps to record:  --profile 10:13")
    return text


def slug(text: str) -> str:
    """Return ``text`` as a run's name in a path: small letters, digits, ``.``, ``-``, ``_``; or empty."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:40].strip("-._")


def name(text: str) -> str:
    if not slug(text):
        raise UsageMistake(f"--name {text!r}: a name needs a letter or digit:  --name lenet")
    return slug(text)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its spellings (the first is shown), its value, and its help (``options.toml``).
    ``aliases``, of other launchers, are not shown. A ``rare`` one is in the reference, not in the README."""

    flags: tuple[str, ...]
    field: str
    metavar: str = ""
    parse: Callable[[str], object] = str
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    many: bool = False
    rare: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return the flags and aliases."""
        return (*self.flags, *self.aliases)

    def switches(self, value: bool) -> list[str]:
        """Return the spellings that set an option without a value to this."""
        return [flag for flag in self.spellings if flag.startswith(("--no-", "--cold")) is not value]

    @property
    def help(self) -> Both:
        return both(f"options.{self.field}")


OPTIONS: tuple[Option, ...] = (
    Option(("-n", "--nproc"), "nproc", "N", nproc),
    Option(("--gpus",), "gpus", "0,1|all", gpus, aliases=("--selected_gpus", "--devices")),
    Option(("--push",), "push", "A,B|auto", push),
    Option(("--pull",), "pull", "A,B", pull),
    Option(("--sweep",), "sweep", "NAME=A,B", sweep, many=True),
    Option(("--name",), "name", "NAME", name, rare=True),
    Option(("-d", "--detach"), "detach"),
    Option(
        ("--framework",), "framework", "NAME", rare=True, choices=("auto", "torch", "paddle", "jax", "none")
    ),
    Option(("--backend",), "backend", "NAME", rare=True, choices=("auto", "nccl", "gloo")),
    Option(("--timeout",), "timeout", "TIME", parse_duration),
    Option(("--until",), "until", "TIME", until, rare=True),
    Option(("--grace",), "grace", "TIME", partial(parse_duration, flag="--grace"), rare=True),
    Option(("--hang-after",), "hang_after", "TIME", hang_after, rare=True),
    Option(("--notify",), "notify", "URL", notify, rare=True),
    Option(("--profile",), "profile", "10:13", profile, rare=True),
    Option(("--retries",), "retries", "N", retries),
    Option(("--debug",), "debug", rare=True),
    Option(("--checkpoints",), "checkpoints", "DIR", rare=True),
    Option(("--memory",), "memory", "SIZE", memory, rare=True),
    Option(("--env",), "env", "K=V", env, rare=True, many=True),
    Option(("--python-flags",), "python_flags", '"…"', python_flags, rare=True),
    Option(("--args",), "args", '"…"', args),
    Option(("--each",), "each", "N", each, rare=True),
    Option(("--metric",), "metric", "NAME", rare=True),
    Option(("--keep-inputs",), "keep_inputs", rare=True),
    Option(("--cwd",), "cwd", "DIR", rare=True),
    Option(("--log-dir",), "log_dir", "DIR", rare=True, aliases=("--log_dir",)),
    Option(("--nodes",), "nodes", "N", count_of_nodes, rare=True),
    Option(("--node-rank",), "node_rank", "I", node_rank, rare=True, aliases=("--node_rank",)),
    Option(("--master",), "master", "HOST:PORT", address, rare=True, many=True),
    Option(("--ips",), "ips", "A,B", addresses, rare=True),
    Option(("--host",), "host", "ADDRESS", rare=True),
    Option(("--wait",), "wait", "TIME", wait, rare=True),
    Option(("--on",), "engine", "ENGINE", choices=("local", "slurm", "ray")),
    Option(("--slurm",), "slurm", "K=V,…", parse_slurm, rare=True),
    Option(("--ray",), "ray", "ADDRESS", parse_address, rare=True),
    Option(("--scrape", "--no-scrape"), "scrape", rare=True),
    Option(("--no-panel",), "panel", rare=True),
    Option(("--no-check",), "check", rare=True),
    Option(("--warm", "--cold"), "warm", rare=True),
    Option(("--show-ranks",), "show_ranks", "0,1", ranks_to_show, rare=True),
)


def help_text(usage: str = "%%distributed [options]", *, without: Collection[str] = ()) -> str:
    """Return a table of the options below ``usage``, but for the fields in ``without``."""
    shown = [option for option in OPTIONS if option.field not in without]
    rows = [(", ".join(o.flags) + (f" {o.metavar}" if o.metavar else ""), o.help.en) for o in shown]
    width = max(len(left) for left, _ in rows)
    return "\n".join([usage, *(f"  {left:<{width}}  {right}" for left, right in rows)])


def described(option: Option) -> dict[str, object]:
    """Return ``Option`` in openapi.yaml, without ``magics``."""
    return {
        "flags": list(option.flags),
        "metavar": option.metavar,
        "help": option.help._asdict(),
        "choices": list(option.choices),
        "many": option.many,
    }
