"""The options of ``%%distributed`` for pages that complete them, explain them, or make a form of them."""

from __future__ import annotations

from nbdist.options import OPTIONS

CHINESE = {
    "nproc": "在 CPU 上启动 N 个进程",
    "gpus": "在这些 GPU 上各启动一个进程,编号与 nvidia-smi 一致",
    "framework": "auto(由程序导入的框架决定)、torch、paddle、jax、none",
    "backend": "auto、nccl、gloo:进程组的默认后端",
    "name": "运行的名称",
    "detach": "立即返回,运行在后台继续",
    "timeout": "超过 90s、5m、1h30m 后停止运行",
    "hang_after": "停滞 60s(默认)、5m 后报告;off 为不报告",
    "retries": "失败后最多重新运行 N 次",
    "memory": "结束内存超过 16G、512M 的进程(需要控制组)",
    "env": "为每个进程设置环境变量(可重复)",
    "args": "程序的 sys.argv[1:]",
    "cwd": "各进程的工作目录(默认为当前目录)",
    "log_dir": "同时在该目录写入 workerlog.N,每个进程一个文件",
    "nodes": "N 台机器:在每台上以相同选项运行",
    "node_rank": "本机的编号,从 0 开始",
    "master": "各机器汇合之处:节点 0 的地址和一个空闲端口",
    "ips": "各机器的地址,代替上面三项",
    "host": "本机有多个地址时,使用哪一个",
    "wait": "等待其他机器的时间(10m)",
    "engine": "local:本机;slurm、ray:作为作业提交,--nodes N 个节点,每个节点的进程数由 -n 或 --gpus 指定",
    "slurm": "sbatch 的选项:partition=gpu,time=1:00:00,account=lab",
    "ray": "Ray 仪表板的地址:http://head:8265(否则取 RAY_API_SERVER_ADDRESS)",
    "scrape": "把程序打印的数值画成曲线(默认开启)",
    "warm": "使用已完成导入、正在等待的进程,或全新启动",
    "panel": "用纯文本代替面板",
    "check": "不检查程序中的错误,直接启动",
    "show_ranks": "纯文本中只显示本机这些进程的输出",
}
"""By the field of the option. One that is not here is explained in English."""


def option_list() -> list[dict[str, object]]:
    """``OptionList`` in openapi.yaml."""
    return [
        {
            "flags": list(option.flags),
            "metavar": option.metavar,
            "help": {"en": option.help, "zh": CHINESE.get(option.field, option.help)},
            "choices": list(option.choices),
            "many": option.many,
        }
        for option in OPTIONS
    ]
