"""The words on the screen, in English and Chinese."""

from __future__ import annotations

from nbdist.model import RankState, RunState

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
_WORDS = {
    "pid": ("pid", "pid"),
    "run": ("run", "运行"),
    "rank": ("rank", "进程"),
    "state": ("state", "状态"),
    "device": ("device", "设备"),
    "memory": ("memory", "内存"),
    "age": ("age", "时长"),
    "last line": ("last line", "最后一行"),
    "elapsed": ("elapsed", "已用时"),
    "metrics": ("Last values", "最新指标"),
    "first failure": ("First failure", "最先失败"),
    "end of log": ("end of the log", "日志末尾"),
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


_PHRASES = {
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
}


def phrase(key: str, language: str) -> str:
    """The sentence for ``key``, with its places still to be filled."""
    return _PHRASES[key][language == "zh"]


def leftover_text(count: int, language: str) -> str:
    """What is said of processes that had to be ended after the ranks; empty for none."""
    if not count:
        return ""
    return phrase("leftover 1" if count == 1 else "leftover", language).format(count=count)


def word(key: str, language: str) -> str:
    """The word for ``key`` in "en" or "zh"."""
    return _WORDS[key][language == "zh"]


def ranks_text(count: int, language: str) -> str:
    """``1 rank``, ``2 ranks``, ``2 个进程``."""
    if language == "zh":
        return f"{count} 个进程"
    return f"{count} rank{'' if count == 1 else 's'}"


def state_word(state: RunState | RankState, language: str) -> str:
    """The word for a state, as it stands in the pill and in the strip."""
    table = RUN_STATES if isinstance(state, RunState) else RANK_STATES
    return table[state][language == "zh"]  # type: ignore[index]
