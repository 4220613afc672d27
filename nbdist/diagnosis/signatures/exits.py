"""Ranks that ended without a word, by how they exited, and what only all ranks together show."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Signature, Source

SIGNATURES = (
    Signature(
        name="exit-out-of-memory",
        source=Source.EXIT,
        pattern=r"^SIGKILL-oom$",
        cause="the machine ran out of memory, and the system chose this rank to free some",
        fix=(
            "smaller batches, fewer DataLoader workers or ranks; do not load the whole data set on every rank"
        ),
        cause_zh="机器内存耗尽，系统选择结束了这个进程",
        fix_zh="减小批次、DataLoader 工作进程或进程数；不要让每个进程都加载整个数据集",
    ),
    Signature(
        name="exit-memory-limit",
        source=Source.EXIT,
        pattern=r"^SIGKILL-limit$",
        cause="this rank, with the processes that it had started, took more memory than --memory allows",
        fix="smaller batches or fewer DataLoader workers, or a larger  --memory",
        cause_zh="这个进程及其启动的进程占用的内存超过了 --memory 的限制",
        fix_zh="减小批次或 DataLoader 工作进程数，或增大  --memory",
    ),
    Signature(
        name="exit-killed",
        source=Source.EXIT,
        pattern=r"^SIGKILL$",
        cause="something outside killed this rank: a memory limit of the container or job, or a person",
        fix="watch memory in %dist_status while it runs; smaller batches or fewer ranks if it grows",
        cause_zh="外部结束了这个进程：容器或作业的内存限制，或有人手动结束",
        fix_zh="运行时在 %dist_status 里观察内存；若一直增长，减小批次或进程数",
    ),
    Signature(
        name="exit-bus-error",
        source=Source.EXIT,
        pattern=r"^SIGBUS",
        cause=(
            "memory that should be there was not: mostly a full /dev/shm, or a mapped file that was cut short"
        ),
        fix=(
            "a larger /dev/shm (docker: --shm-size=8g), fewer DataLoader workers; do not overwrite "
            "mapped files"
        ),
        cause_zh="访问的内存不存在：多半是 /dev/shm 已满，或映射的文件被截短",
        fix_zh="增大 /dev/shm（docker: --shm-size=8g），减少 DataLoader 工作进程；不要覆盖已映射的文件",
    ),
    Signature(
        name="exit-segmentation-fault",
        source=Source.EXIT,
        pattern=r"^SIGSEGV",
        cause=(
            "native code touched memory that is not its own: a compiled extension, or libraries that "
            "do not fit"
        ),
        fix="run the line that is named with one rank; reinstall the extension for the installed framework",
        cause_zh="本地代码访问了不属于它的内存：编译的扩展，或互不匹配的库",
        fix_zh="用一个进程运行被点名的那一行；为已安装的框架重新安装扩展",
    ),
    Signature(
        name="exit-illegal-instruction",
        source=Source.EXIT,
        pattern=r"^SIGILL",
        cause="a library uses instructions (AVX, say) that this CPU does not have",
        fix="install a build for this CPU; paddle has one without AVX for old machines",
        cause_zh="某个库使用了本机 CPU 没有的指令（例如 AVX）",
        fix_zh="安装适合本机 CPU 的版本；paddle 为旧机器提供不带 AVX 的版本",
    ),
    Signature(
        name="exit-without-error",
        source=Source.EXIT,
        pattern=r"^exit (?!0\b)\d+",
        cause="the rank ended itself without an exception: os._exit(), or exit() in native code",
        fix="the last lines of its log are the nearest; look for os._exit in it and in what it calls",
        cause_zh="该进程没有抛出异常就结束了自己：os._exit()，或本地代码里的 exit()",
        fix_zh="看它日志的最后几行；在程序和它调用的代码里查找 os._exit",
    ),
    Signature(
        name="exit-disk-full",
        source=Source.SITUATION,
        cause="{disk} was full when the rank ended, so it could not write why",
        fix="delete old checkpoints and runs (NBDIST_KEEP_GB=5 keeps fewer); save to another disk",
        cause_zh="该进程结束时 {disk} 已满，无法写下原因",
        fix_zh="删除旧的检查点和运行（NBDIST_KEEP_GB=5 可少留一些）；保存到其他磁盘",
    ),
    Signature(
        name="exit-report-lost",
        source=Source.SITUATION,
        cause="an exception left the program, and neither a report of it nor its traceback could be written",
        fix="look for what takes its files away from the rank: chroot, setuid, a limit, a moved directory",
        cause_zh="程序因异常结束，但错误报告和回溯都无法写入",
        fix_zh="查找是什么让该进程不能写文件：chroot、setuid、资源限制、被移走的目录",
    ),
    Signature(
        name="shared-memory-full",
        source=Source.SITUATION,
        cause="/dev/shm is full: tensors, locks and queues that several processes share lie there",
        fix="a larger /dev/shm (docker: --shm-size=8g), or fewer of them;  ls -l /dev/shm  shows more",
        cause_zh="/dev/shm 已满：多个进程共享的张量、锁和队列都在其中",
        fix_zh="增大 /dev/shm（docker: --shm-size=8g），减少共享对象；用  ls -l /dev/shm  查看其中的内容",
    ),
    Signature(
        name="uneven-steps",
        source=Source.SITUATION,
        cause="the ranks did different numbers of steps: {early} ended while {late} still had one to do",
        fix=(
            "same number of batches on every rank: DistributedSampler or drop_last=True; or "
            "model.join() in torch"
        ),
        cause_zh="各进程的步数不同：{early} 已经结束，而 {late} 还有没做完的",
        fix_zh="让每个进程的批次数相同：DistributedSampler 或 drop_last=True；torch 也可用 model.join()",
    ),
    Signature(
        name="left-before-all-met",
        source=Source.SITUATION,
        cause="{early} destroyed its process group before {late} had joined it: no call in it waits for all",
        fix="dist.barrier()  before  dist.destroy_process_group()",
        cause_zh="{late} 尚未加入进程组，{early} 就已将其销毁：其间没有等待所有进程的调用",
        fix_zh="在  dist.destroy_process_group()  之前加  dist.barrier()",
    ),
    Signature(
        name="left-early",
        source=Source.SITUATION,
        cause="{early} left with exit code 0 before the end of the program (os._exit(0), say)",
        fix="let every rank come to the end of the program, or leave on all of them at the same place",
        cause_zh="{early} 在程序结束之前就以退出码 0 离开（例如 os._exit(0)）",
        fix_zh="让每个进程都执行到程序结尾，或在同一处一起离开",
    ),
    Signature(
        name="rank-did-not-come",
        source=Source.SITUATION,
        cause=(
            "{absent} did not come to this call while {late} waited: another branch, a deadlock or slow work"
        ),
        fix="let every rank call the same collectives in the same order: none inside  if rank == 0",
        cause_zh="{late} 在等待，而 {absent} 没有执行到这个调用：走了别的分支、死锁或耗时工作",
        fix_zh="让每个进程按同样的顺序调用同样的集合通信：不要放在  if rank == 0  里",
    ),
)
