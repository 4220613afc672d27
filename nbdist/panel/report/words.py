"""The words of a report, in English and Chinese."""

from __future__ import annotations

_WORDS = {
    "report": ("Report of a run", "运行报告"),
    "comparison": ("Comparison of {count} runs", "{count} 次运行的对比"),
    "exported": ("Exported {time} with nbdist {version}", "由 nbdist {version} 导出于 {time}"),
    "masked": (
        "{count} values that look like secrets are masked.",
        "已隐去 {count} 处疑似密钥的内容。",
    ),
    "theme": ("Light or dark", "浅色或深色"),
    "runs": ("Runs", "运行"),
    "run": ("Run", "运行"),
    "state": ("State", "状态"),
    "ranks": ("Ranks", "进程数"),
    "duration": ("Duration", "时长"),
    "created": ("Started", "开始时间"),
    "charts": ("Metrics", "指标"),
    "system": ("System", "系统"),
    "hparams": ("Hyperparameters", "超参数"),
    "images": ("Images", "图像"),
    "texts": ("Texts", "文本"),
    "histograms": ("Histograms", "直方图"),
    "audio": ("Audio", "音频"),
    "curves": ("Precision and recall, ROC", "精确率与召回率、ROC"),
    "failure": ("What went wrong", "失败原因"),
    "logs": ("Logs", "日志"),
    "cell": ("Cell", "单元格"),
    "program": ("Program", "程序"),
    "band": ("mean, min to max over ranks", "各进程的平均值,最小至最大"),
    "step": ("step", "步数"),
    "time": ("seconds", "秒"),
    "left out": ("{count} more are left out", "另有 {count} 项未收录"),
    "too large": ("{size} MB: left out", "{size} MB:未收录"),
    "search": ("Search", "搜索"),
    "previous": ("Previous match", "上一个匹配"),
    "next": ("Next match", "下一个匹配"),
    "download": ("Download", "下载"),
    "lines": ("{count} lines", "{count} 行"),
    "no script": (
        "Without scripts only the ends of the logs are shown; all of them are in this file.",
        "未启用脚本,仅显示日志末尾;完整日志已包含在此文件中。",
    ),
    "old browser": (
        "This browser cannot unpack the logs; their ends are below.",
        "此浏览器无法解压日志;以下为日志末尾。",
    ),
    "cut": (
        "—— {size} MB are left out here; the whole log: nbdist logs {label} --rank {rank} ——",
        "—— 此处省略 {size} MB;完整日志:nbdist logs {label} --rank {rank} ——",
    ),
    "not in it": ("Not in this report", "本报告未收录"),
    "tags out": (
        "{label}: {count} of {all} metrics ({names}); all of them: nbdist board {label}",
        "{label}:{all} 项指标中的 {count} 项({names});全部指标:nbdist board {label}",
    ),
    "logs out": (
        "{label}: {size} MB from the middle of the logs (rank {ranks}); the whole log: "
        "nbdist logs {label} --rank {rank}",
        "{label}:日志中部的 {size} MB(进程 {ranks});完整日志:nbdist logs {label} --rank {rank}",
    ),
    "prints out": (
        "{label}: curves of what is only printed, from the first {size} MB of the logs",
        "{label}:日志开头 {size} MB 中仅由打印输出得到的曲线",
    ),
    "records out": (
        "{label}: {count} files of pictures and the like, each above 256 MB; all: nbdist board {label}",
        "{label}:{count} 个超过 256 MB 的图像等记录文件;全部内容:nbdist board {label}",
    ),
    "program out": (
        "{label}: its program, which is larger than 1 MB",
        "{label}:程序(超过 1 MB)",
    ),
    "attempts": (
        "Attempt {count} of {count}; the logs of the others are with the run.",
        "第 {count} 次尝试(共 {count} 次);其余尝试的日志保留在运行目录中。",
    ),
    "going on": (
        "The run was still going on when this was exported.",
        "导出时运行尚未结束。",
    ),
    "no output": ("no output", "无输出"),
    "no metrics": ("No metrics were logged.", "未记录指标。"),
}


def word(key: str, language: str, **places: object) -> str:
    """The word or sentence for ``key``, with its places filled."""
    return _WORDS[key][language == "zh"].format(**places)
