"""NCCL, in torch's and in paddle's words."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Role, Signature

SIGNATURES = (
    Signature(
        name="nccl-duplicate-gpu",
        pattern=r"Duplicate GPU detected ?: rank (?P<a>\d+) and rank (?P<b>\d+)",
        cause="ranks {a} and {b} use the same GPU",
        fix="before the model is made: torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        cause_zh="进程 {a} 和进程 {b} 用了同一块 GPU",
        fix_zh="在创建模型之前：torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
    ),
    Signature(
        name="nccl-version-mismatch",
        pattern=r"Mismatched NCCL version detected",
        cause="the ranks loaded different versions of NCCL",
        fix="take foreign NCCL folders out of LD_LIBRARY_PATH; the same environment on every machine",
        cause_zh="各进程加载了不同版本的 NCCL",
        fix_zh="从 LD_LIBRARY_PATH 去掉其他 NCCL 目录；各机器使用相同的环境",
    ),
    Signature(
        name="nccl-no-interface",
        pattern=r"Bootstrap : no socket interface found|NCCL WARN No interface found",
        cause="NCCL found no network interface under the name that NCCL_SOCKET_IFNAME asks for",
        fix="unset NCCL_SOCKET_IFNAME, or set it to one that  ip addr  lists",
        cause_zh="NCCL 找不到 NCCL_SOCKET_IFNAME 指定的网卡",
        fix_zh="取消 NCCL_SOCKET_IFNAME，或设为  ip addr  列出的网卡",
    ),
    Signature(
        name="nccl-connect",
        pattern=r"socketStartConnect: Connect to (?P<where>\S+) failed ?: (?P<why>[^\n]+)",
        cause="NCCL cannot reach {where}: {why}; it chose an interface that the ranks do not share",
        fix="--env NCCL_SOCKET_IFNAME=<the common interface>, and let the firewall pass between the machines",
        cause_zh="NCCL 连不上 {where}：{why}；选中的网卡各进程之间不通",
        fix_zh="--env NCCL_SOCKET_IFNAME=<共同的网卡>，并放行机器之间的防火墙",
    ),
    Signature(
        name="nccl-remote-error",
        role=Role.GONE,
        pattern=(
            r"ncclRemoteError|remote process exit(?:ing|ed) prematurely"
            r"|NCCL communicator was aborted on rank"
        ),
        cause="another rank left while NCCL was talking to it",
        fix="look at the rank that ended first",
        cause_zh="NCCL 通信时另一个进程退出了",
        fix_zh="查看最先结束的进程",
    ),
    Signature(
        name="nccl-timeout",
        role=Role.WAITED,
        pattern=(
            r"Watchdog caught collective operation timeout: "
            r"WorkNCCL\(SeqNum=(?P<step>\d+), OpType=(?P<what>\w+)"
        ),
        cause="{what} number {step} did not complete in time: a rank did not come, or called something else",
        fix=(
            "let every rank call the same collectives; --env TORCH_DISTRIBUTED_DEBUG=DETAIL names the "
            "difference"
        ),
        cause_zh="第 {step} 个集合通信 {what} 超时：有进程没有到达，或调用了别的",
        fix_zh="让每个进程调用同样的集合通信；--env TORCH_DISTRIBUTED_DEBUG=DETAIL 会指出差异",
    ),
    Signature(
        name="nccl-heartbeat",
        role=Role.WAITED,
        pattern=r"ProcessGroupNCCL's watchdog got stuck for \d+ seconds",
        cause="NCCL's own thread made no progress: a rank hangs, or holds the interpreter's lock",
        fix="%dist_stacks while it hangs shows which rank; look for long C calls and deadlocks there",
        cause_zh="NCCL 的监控线程没有进展：有进程卡住，或占着解释器锁",
        fix_zh="卡住时用 %dist_stacks 查看是哪个进程；检查那里的长时间 C 调用和死锁",
    ),
    Signature(
        name="nccl-shared-memory",
        pattern=(
            r"Error while (?:creating|attaching to) shared memory segment"
            r"|Call to (?:posix_fallocate|ftruncate) failed"
        ),
        cause="NCCL found no room in /dev/shm",
        fix="a larger /dev/shm (docker: --shm-size=8g, or --ipc=host); fewer DataLoader workers",
        cause_zh="NCCL 在 /dev/shm 里没有空间",
        fix_zh="增大 /dev/shm（docker: --shm-size=8g 或 --ipc=host）；减少 DataLoader 工作进程",
    ),
    Signature(
        name="nccl-cuda-error",
        pattern=r"ncclUnhandledCudaError|unhandled cuda error",
        cause="a CUDA call inside NCCL failed: a GPU out of memory, lost, or an error of an earlier kernel",
        fix="--env NCCL_DEBUG=INFO says which call; free GPU memory first (%dist_doctor shows who holds it)",
        cause_zh="NCCL 内部的 CUDA 调用失败：显存不足、GPU 掉线，或更早的核函数出错",
        fix_zh="--env NCCL_DEBUG=INFO 会说明是哪个调用；先释放显存（%dist_doctor 可查看占用者）",
    ),
    Signature(
        name="nccl-system-error",
        pattern=(
            r"(?:ncclSystemError|unhandled system error)(?![\s\S]*socketStartConnect)"
            r"(?![\s\S]*shared memory segment)(?![\s\S]*Call to (?:posix_fallocate|ftruncate))"
        ),
        cause="a system call inside NCCL failed: the network between the ranks, or /dev/shm",
        fix="--env NCCL_DEBUG=INFO says which; try --env NCCL_SOCKET_IFNAME=lo on one machine",
        cause_zh="NCCL 内部的系统调用失败：进程之间的网络，或 /dev/shm",
        fix_zh="--env NCCL_DEBUG=INFO 会说明是哪个；单机可试 --env NCCL_SOCKET_IFNAME=lo",
    ),
    Signature(
        name="nccl-invalid-usage",
        pattern=(
            r"(?:ncclInvalid(?:Usage|lsage)|NCCL error[^\n]*invalid usage)(?![\s\S]*Duplicate GPU)"
            r"(?![\s\S]*Mismatched NCCL)"
        ),
        cause=(
            "NCCL was used wrongly: mostly two ranks on one GPU, or tensors on a GPU that is not the rank's"
        ),
        fix="torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) as the first CUDA call, before any .cuda()",
        cause_zh="NCCL 使用不当：多半是两个进程用了同一块 GPU，或张量不在本进程的 GPU 上",
        fix_zh="在任何 .cuda() 之前先写 torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
    ),
)
