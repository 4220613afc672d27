"""The words on the screen, in English and Chinese."""

from __future__ import annotations

from nbdist.diagnosis import Failure, describe_exit, failure_headline
from nbdist.model import Rank, RankState, RunState

RUN_STATES = {
    RunState.PENDING: ("Queued", "排队中"),
    RunState.STARTING: ("Starting", "启动中"),
    RunState.RUNNING: ("Running", "运行中"),
    RunState.STOPPING: ("Stopping", "停止中"),
    RunState.SUCCEEDED: ("Finished", "已完成"),
    RunState.FAILED: ("Failed", "失败"),
    RunState.CANCELLED: ("Stopped", "已停止"),
    RunState.LOST: ("Lost", "失联"),
}
RANK_STATES = {
    RankState.PENDING: ("Waiting", "等待中"),
    RankState.RUNNING: ("Running", "运行中"),
    RankState.SUCCEEDED: ("Finished", "已完成"),
    RankState.FAILED: ("Failed", "失败"),
    RankState.ENDED: ("Ended", "已退出"),
    RankState.LOST: ("Lost", "失联"),
}
# by the value, which runs and ranks share: a shape beside the word, so that no state is a colour alone
_MARKS = {
    "pending": "○",
    "starting": "○",
    "running": "●",
    "stopping": "●",
    "succeeded": "✓",
    "failed": "✕",
    "cancelled": "■",
    "ended": "■",
    "stalled": "‖",
    "slow": "▲",
    "lost": "✕",
}
WORDS = {
    "pid": ("pid", "pid"),
    "run": ("run", "运行"),
    "rank": ("rank", "进程"),
    "state": ("state", "状态"),
    "device": ("device", "设备"),
    "memory": ("memory", "内存"),
    "use": ("use", "利用率"),
    "rate": ("step/s", "步/秒"),
    "last line": ("last line", "最后一行"),
    "elapsed": ("elapsed", "已用时"),
    "left": ("left", "剩余"),
    "slowest": ("slowest", "最慢"),
    "stalled": ("Stalled", "停滞"),
    "held up": ("Held up", "受阻"),
    "waiting": ("Waiting", "等待中"),
    "stacks": ("Stacks", "调用栈"),
    "metrics": ("Last values", "最新指标"),
    "failed first": ("Failed first", "最先失败"),
    "cause": ("Cause", "原因"),
    "fix": ("Fix", "解决方法"),
    "traceback": ("Traceback", "调用栈"),
    "log": ("log", "日志"),
    "end of log": ("end of the log", "日志末尾"),
    "ends of logs": ("Ends of the logs", "日志末尾"),
    "full log": ("Full log", "完整日志"),
    "no output": ("no output", "无输出"),
    "no runs": (
        "no runs yet: start one with  %%distributed -n 2",
        "尚无运行:用 %%distributed -n 2 启动",
    ),
    "live elsewhere": (
        "This run is shown live in a notebook front end that draws widgets. Here, or after a reload: "
        "%dist_status, %dist_logs.",
        "此运行在支持组件的笔记本界面中实时显示。若此处未显示或已重新加载:%dist_status、%dist_logs。",
    ),
}
PHRASES = {
    "gpu freed": ("GPU {index}: {size:.1f} GB came back", "GPU {index}:已释放 {size:.1f} GB"),
    "gpu held": (
        "GPU {index}: {size:.1f} GB still held by {name} (pid {pid})",
        "GPU {index}:{name}(pid {pid})仍占用 {size:.1f} GB",
    ),
    "leftover": (
        "{count} processes that the ranks had left behind were ended",
        "已结束各进程遗留的 {count} 个子进程",
    ),
    "leftover 1": (
        "1 process that the ranks had left behind was ended",
        "已结束各进程遗留的 1 个子进程",
    ),
    "alone": (
        "{ranks} ran, none joined a process group: did each do the whole work?",
        "共运行 {ranks}，均未加入进程组：是否每个进程都重复做了全部工作？",
    ),
    "no progress": ("No progress for {seconds} s", "{seconds} 秒没有进展"),
    "hung": ("Where the ranks were when it was ended", "结束时各进程的位置"),
    "slow": (
        "rank {rank} is the slowest: {over} ms a step more of its own than the others ({factor} times)",
        "进程 {rank} 最慢:每步自身耗时比其他进程多 {over} 毫秒({factor} 倍)",
    ),
    "slow times": (
        "rank {rank} is the slowest: {factor} times the own time of the others",
        "进程 {rank} 最慢:自身耗时是其他进程的 {factor} 倍",
    ),
    "goes on": ("{label} goes on after {seconds} s", "{label} 在 {seconds} 秒后继续运行"),
    "remaining": ("{time} left", "剩余 {time}"),
    "rate": ("{rate} step/s", "{rate} 步/秒"),
    "ended early": ("{label} ended early: {reason}", "{label} 提前结束:{reason}"),
    "at": ("stopped at {progress}", "停在 {progress}"),
    "at time": ("at {time}", "发生于 {time}"),
    "as of": ("As of {time}", "截至 {time}"),
    "from": ("from {value}", "起始 {value}"),
    "others": ("{count} other ranks ended after it", "随后另有 {count} 个进程退出"),
    "others 1": ("1 other rank ended after it", "随后另有 1 个进程退出"),
    "more lines": ("… {count} more lines", "… 另有 {count} 行"),
    "more ranks": (
        "The ends of {shown} of {count} logs are kept here.",
        "此处保留 {count} 份日志中 {shown} 份的末尾。",
    ),
}


def phrase(key: str, language: str) -> str:
    """The sentence for ``key``, with its places still to be filled."""
    return PHRASES[key][language == "zh"]


def leftover_text(count: int, language: str) -> str:
    """What is said of processes that had to be ended after the ranks; empty for none."""
    if not count:
        return ""
    return phrase("leftover 1" if count == 1 else "leftover", language).format(count=count)


def word(key: str, language: str) -> str:
    """The word for ``key`` in "en" or "zh"."""
    return WORDS[key][language == "zh"]


def ranks_text(count: int, language: str) -> str:
    """``1 rank``, ``2 ranks``, ``2 个进程``."""
    if language == "zh":
        return f"{count} 个进程"
    return f"{count} rank{'' if count == 1 else 's'}"


def state_word(state: RunState | RankState, language: str) -> str:
    """The word for a state, as it stands in the pill and in the strip."""
    table = RUN_STATES if isinstance(state, RunState) else RANK_STATES
    return table[state][language == "zh"]  # type: ignore[index]


def state_mark(state: str) -> str:
    """The shape that goes with a state of a run or of a rank."""
    return _MARKS[state]


def exit_text(rank: Rank, language: str) -> str:
    """How a rank exited, read aloud; empty while it has not."""
    if rank.code is None:
        return ""
    ended = rank.state is RankState.ENDED
    return describe_exit(
        rank.code, oom=rank.oom, ended=ended, memory=rank.memory, limit=rank.limit, language=language
    )


def failure_title(failure: Failure, language: str) -> str:
    """Which rank failed first, of what, and where."""
    return failure_headline(failure, language)
