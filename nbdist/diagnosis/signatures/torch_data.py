"""torch's DataLoader, its workers and samplers."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Role, Signature

SIGNATURES = (
    Signature(
        name="loader-open-files",
        framework="torch",
        pattern=(
            r"Too many open files\. Communication with the workers is no longer possible"
            r"|received 0 items of ancdata|torch_.*: Too many open files"
        ),
        cause="the limit on open files is reached: each tensor that a DataLoader worker hands over holds one",
        fix="torch.multiprocessing.set_sharing_strategy('file_system'), or  ulimit -n 65536  before Jupyter",
        cause_zh="打开的文件数达到上限：DataLoader 工作进程交来的每个张量都占一个",
        fix_zh=(
            "torch.multiprocessing.set_sharing_strategy('file_system')，"
            "或在启动 Jupyter 之前  ulimit -n 65536"
        ),
    ),
    Signature(
        name="loader-worker-shm",
        pattern=(
            r"DataLoader worker \(pid \d+\) is killed by signal: Bus error"
            r"|unable to (?:write to file|open shared memory object|allocate shared memory).*torch_"
            r"|Unexpected bus error encountered in worker"
        ),
        cause="/dev/shm is full: DataLoader workers hand their batches over in shared memory",
        fix="fewer workers or smaller batches, num_workers=0, or a larger /dev/shm (docker: --shm-size=8g)",
        cause_zh="/dev/shm 已满：DataLoader 的工作进程通过共享内存传递批次",
        fix_zh="减少工作进程或批次大小，设 num_workers=0，或增大 /dev/shm（docker: --shm-size=8g）",
    ),
    Signature(
        name="loader-worker-killed",
        framework="torch",
        pattern=(
            r"DataLoader worker \(pid \d+\) is killed by signal:"
            r" (?P<signal>Killed|Segmentation fault|Aborted|Terminated)"
        ),
        cause="a DataLoader worker was ended by a signal ({signal}); Killed is mostly lack of memory",
        fix="use fewer workers or load less at a time; num_workers=0 shows an error of the dataset itself",
        cause_zh="DataLoader 的工作进程被信号结束（{signal}）；Killed 多半是内存不足",
        fix_zh="减少工作进程或每次加载的数据；设 num_workers=0 可以看到数据集自身的错误",
    ),
    Signature(
        name="loader-worker-exited",
        framework="torch",
        role=Role.CHILD,
        pattern=r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) exited unexpectedly",
        cause="a DataLoader worker ended without telling why",
        fix="set num_workers=0 to see the error in the rank itself",
        cause_zh="DataLoader 的工作进程没有说明原因就结束了",
        fix_zh="设 num_workers=0，在主进程里查看错误",
    ),
    Signature(
        name="loader-timeout",
        framework="torch",
        pattern=r"DataLoader timed out after (?P<limit>\d+) seconds",
        cause="a DataLoader worker took longer than timeout={limit} for a batch",
        fix="look for a lock, a download or slow storage in the dataset; raise timeout=",
        cause_zh="DataLoader 的工作进程准备一个批次超过了 timeout={limit} 秒",
        fix_zh="检查数据集里的锁、下载或慢速存储；或调大 timeout=",
    ),
    Signature(
        name="pickle-local",
        pattern=(
            r"Can't pickle (?:local object|<function [\w.<>]*<lambda>|<function)"
            r"|Can't get local (?:object|attribute)"
            r"|cannot pickle '[\w.]+' object"
        ),
        cause=(
            "a started process is sent a lambda, a local function or an open resource; it cannot be pickled"
        ),
        fix=(
            "define functions and classes at the top level of the program; open files and connections in "
            "the worker"
        ),
        cause_zh="要传给子进程的是 lambda、局部函数或打开的资源，无法 pickle",
        fix_zh="把函数和类定义在程序的最外层；文件和连接在工作进程里打开",
    ),
    Signature(
        name="iterable-dataset-sampler",
        framework="torch",
        pattern=r"(?i)DataLoader with Iterable-?dataset: expected unspecified (?:batch_)?sampler option",
        cause="an IterableDataset chooses its own order, so it takes no sampler",
        fix=(
            "drop sampler=; split the data in __iter__ by rank (itertools.islice(data, rank, None, "
            "world_size))"
        ),
        cause_zh="IterableDataset 自己决定顺序，不能再用 sampler",
        fix_zh="去掉 sampler=；在 __iter__ 里用 itertools.islice(data, rank, None, world_size) 划分数据",
    ),
    Signature(
        name="iterable-dataset-shuffle",
        framework="torch",
        pattern=r"DataLoader with IterableDataset: expected unspecified shuffle option",
        cause="an IterableDataset chooses its own order, so shuffle=True means nothing",
        fix="drop shuffle=True and shuffle inside the dataset",
        cause_zh="IterableDataset 自己决定顺序，shuffle=True 没有意义",
        fix_zh="去掉 shuffle=True，在数据集内部打乱",
    ),
    Signature(
        name="shuffle-and-sampler",
        framework="torch",
        pattern=r"sampler option is mutually exclusive with shuffle",
        cause="the DataLoader got both shuffle=True and a sampler",
        fix="drop shuffle=True: DistributedSampler(dataset, shuffle=True) shuffles already",
        cause_zh="DataLoader 同时设置了 shuffle=True 和 sampler",
        fix_zh="去掉 shuffle=True：DistributedSampler(dataset, shuffle=True) 已经会打乱",
    ),
    Signature(
        name="loader-empty",
        framework="torch",
        pattern=r"num_samples should be a positive integer value, but got num_samples=0",
        cause="the dataset is empty on this rank",
        fix="check the path and the pattern of the files, and the split by rank",
        cause_zh="本进程上的数据集是空的",
        fix_zh="检查文件路径和匹配规则，以及按进程的划分",
    ),
    Signature(
        name="collate-sizes",
        framework="torch",
        pattern=r"stack expects each tensor to be equal size|Trying to resize storage that is not resizable",
        cause="samples of different shapes cannot be stacked into one batch",
        fix="resize or pad the samples in the dataset, or give the DataLoader a collate_fn that pads",
        cause_zh="形状不同的样本无法堆叠成一个批次",
        fix_zh="在数据集里缩放或补齐样本，或给 DataLoader 一个会补齐的 collate_fn",
    ),
    Signature(
        name="collate-type",
        framework="torch",
        pattern=(
            r"default_collate: batch must contain tensors, numpy"
            r" arrays, numbers, dicts or lists; found (?P<found>.+)"
        ),
        cause="the dataset returns something that cannot be made a batch of: {found}",
        fix="convert it to a tensor in the dataset (transforms.ToTensor()), or pass collate_fn=",
        cause_zh="数据集返回了无法组成批次的对象：{found}",
        fix_zh="在数据集里转成张量（transforms.ToTensor()），或传入 collate_fn=",
    ),
    Signature(
        name="dataset-missing",
        framework="torch",
        pattern=r"Dataset not found(?: or corrupted)?\. ?You can use download=True",
        cause="the data set is not in that folder, or another rank has not finished downloading it",
        fix="download on rank 0 alone, then dist.barrier(), then open it with download=False on all ranks",
        cause_zh="该目录下没有数据集，或其他进程还没有下载完",
        fix_zh="只在进程 0 上下载，然后 dist.barrier()，再让所有进程用 download=False 打开",
    ),
)
