"""Why a run ended, in the reader's language. The journal keeps English; what it may say is a small set."""

from __future__ import annotations

import re

_ZH: tuple[tuple[str, str], ...] = (
    (r"the kernel was interrupted", "内核被中断"),
    (r"stopped from the panel", "从面板停止"),
    (r"stopped from Python", "从 Python 停止"),
    (r"stopped from the dashboard", "从仪表板停止"),
    (r"stopped from the list of runs", "从运行列表停止"),
    (r"stopped from the page", "从页面停止"),
    (r"stopped by (%dist_stop|nbdist stop)", r"由 \1 停止"),
    (r"interrupted", "被中断"),
    (r"nbdist run got (\w+)", r"nbdist run 收到 \1"),
    (r"what it wrote could not be shown: (.*)", r"输出无法显示:\1"),
    (r"SIGKILL did not end ranks? (.+)", r"SIGKILL 未能结束进程 \1"),
    (r"the time limit of (.+) s was reached", r"已达到 \1 秒的时限"),
    (r"ranks? ([\d, ?]+) failed", r"进程 \1 失败"),
    (r"a rank could not be started: (.*)", r"有进程无法启动:\1"),
    (r"its supervisor never started", "其监督进程未曾启动"),
    (r"its supervisor \(pid (\d+)\) has gone without a word", r"其监督进程(pid \1)无声消失"),
    (r"its supervisor \(pid (\d+)\) was killed by (\w+)", r"其监督进程(pid \1)被 \2 结束"),
    (r"its supervisor \(pid (\d+)\) failed \((\d+)\)", r"其监督进程(pid \1)失败(\2)"),
    (
        r"its supervisor \(pid (\d+)\) was stopped \(SIGSTOP\), and its keeper ended the run",
        r"其监督进程(pid \1)被暂停(SIGSTOP),由上级进程结束了运行",
    ),
    (
        r"its supervisor \(pid (\d+)\) was held by a debugger, and its keeper ended the run",
        r"其监督进程(pid \1)被调试器挂住,由上级进程结束了运行",
    ),
    (
        r"its supervisor \(pid (\d+)\) did not go on, and its keeper ended the run",
        r"其监督进程(pid \1)没有继续运行,由上级进程结束了运行",
    ),
    (r"the notebook's kernel ended", "笔记本的内核已结束"),
    (r"the process that started it ended", "启动它的进程已结束"),
    (r"the supervisor got (\w+)", r"监督进程收到 \1"),
    (r"submitted as job (.+)", r"已提交,作业号 \1"),
    (r"starting on (.+)", r"正在 \1 上启动"),
    (r"it is next, and waits for nodes or cores to become free", "下一个就是它,正在等待节点或核心空闲"),
    (r"jobs of higher priority come first", "前面有优先级更高的作业"),
    (r"asks for (\d+) nodes, the partition (.+) has (\d+)", r"需要 \1 个节点,而分区 \2 只有 \3 个"),
    (r"the partition (.+) is down: an administrator has to open it", r"分区 \1 已关闭:需由管理员开放"),
    (
        r"asks for (\d+) nodes?, and (\d+) of (\d+) in the partition (.+) are down or drained",
        r"需要 \1 个节点,而分区 \4 的 \3 个节点中有 \2 个不可用",
    ),
    (r"nodes that it needs are down, drained or reserved(.*)", r"所需节点已宕机、被排空或被预留\1"),
    (r"an administrator holds it", "已被管理员挂起"),
    (r"a limit of your account is reached \((.+)\)", r"已达到账户的限额(\1)"),
    (r"the controller of Slurm does not answer", "Slurm 控制器没有应答"),
    (r"Slurm's job (.+) was cancelled, and not from here", r"Slurm 作业 \1 已被取消(并非在此处取消)"),
    (r"the job's time is over: (\S+ \S+) asks Slurm for more", r"作业的时限已到:可用 \1 申请更长时间"),
    (r"a node of the job failed(.*)", r"作业的一个节点出现故障\1"),
    (
        r"slurm cannot run it: asks for (\d+) nodes, the partition (.+) has (\d+)",
        r"Slurm 无法运行:需要 \1 个节点,而分区 \2 只有 \3 个",
    ),
    (r"slurm put the job into its queue again", "Slurm 已将作业重新排队"),
    (r"the allocation (\S+) was released: (.+)", r"保留的节点(作业 \1)已释放:\2"),
    (
        r"(.+), and nothing has come from its nodes: nobody watches job (\S+) any longer, .+",
        r"\1,各节点也没有任何动静:不再跟踪作业 \2,它可能仍然存在",
    ),
    (
        r"(.+), and it had not begun: nobody watches job (\S+) any longer, .+",
        r"\1,运行也尚未开始:不再跟踪作业 \2,它可能仍然存在",
    ),
    (r"Ray has not started it yet", "Ray 尚未启动它"),
    (r"Ray looks for nodes", "Ray 正在寻找节点"),
    (
        r"it waits for (\d+) nodes? with (\S+) (\w+?)s?(?: each)? to become free",
        r"正在等待 \1 个节点空闲(每个节点需要 \2 个 \3)",
    ),
    (
        r"asks for (\d+) nodes? with (\S+) (\w+?)s?(?: each)?, and Ray has (\d+) such of (\d+)",
        r"需要 \1 个节点(每个节点 \2 个 \3),而 Ray 的 \5 个节点中有 \4 个符合",
    ),
    (r"Ray lost the node (\S+) of the run", r"Ray 失去了运行所在的节点 \1"),
    (r"Ray lost the node (\S+) of the run, and it begins again", r"Ray 失去了运行所在的节点 \1,将重新开始"),
    (r"Ray's job (.+) was stopped, and not from here", r"Ray 作业 \1 已被停止(并非在此处停止)"),
    (r"Ray at (\S+) did not answer in (\S+) s", r"\1 上的 Ray 在 \2 秒内没有应答"),
    (r"no Ray answers at (\S+) \((.*?)\)(?:: .*)?", r"\1 上没有 Ray 应答(\2)"),
    (
        r"it was ended from outside: the engine's process on this node ended(?: \(node \d+\))?"
        r"; no Ray answers at (\S+) \((.*)\)",
        r"Ray 在节点上的进程已结束,运行随之结束;\1 上没有 Ray 应答(\2)",
    ),
    (r"ray put the job into its queue again", "Ray 已将作业重新排队"),
)
_PATTERNS = [(re.compile(english, re.DOTALL), chinese) for english, chinese in _ZH]


def reason_text(reason: str, language: str) -> str:
    """``reason`` as it is read in "en" or "zh"; what is not known stays as it is."""
    if language != "zh":
        return reason
    why, told, rest = reason.partition("; its supervisor")
    if told:
        return f"{reason_text(why, language)};{reason_text(told[2:] + rest, language)}"
    for pattern, chinese in _PATTERNS:
        if match := pattern.fullmatch(reason):
            return match.expand(chinese)
    return reason
