"""PaddlePaddle: how its ranks meet, its DataLoader, its enforced errors."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Role, Signature

_P = "paddle"

SIGNATURES = (
    Signature(
        name="paddle-variable-missing",
        framework=_P,
        pattern=r"paddle\.distributed initialize error, environment variable (?P<variable>\w+) is needed",
        cause="the environment variable {variable} is gone: the program removes or empties what nbdist sets",
        fix="do not touch the PADDLE_* variables in the program; nbdist sets them for every rank",
        cause_zh="环境变量 {variable} 不见了：程序里删除或清空了 nbdist 设好的变量",
        fix_zh="不要在程序里改动 PADDLE_* 变量，nbdist 已为每个进程设好",
    ),
    Signature(
        name="paddle-fluid-removed",
        framework=_P,
        pattern=r"No module named 'paddle\.fluid'|module 'paddle' has no attribute 'fluid'",
        cause="paddle.fluid was removed in paddle 2.5; this program is written for an older version",
        fix="use paddle.nn, paddle.optimizer and paddle.io; paddle.static for what stays a static graph",
        cause_zh="paddle.fluid 从 paddle 2.5 起已移除；这个程序是为更早的版本写的",
        fix_zh="改用 paddle.nn、paddle.optimizer、paddle.io；静态图用 paddle.static",
    ),
    Signature(
        name="paddle-spawn-in-rank",
        framework=_P,
        pattern=r"CPUONLY spawn doesn't support multi-trainer",
        cause="dist.spawn() runs inside a rank: this is already one of several processes",
        fix="call the function itself, train(), in place of dist.spawn(train, nprocs=…); or start with -n 1",
        cause_zh="在进程里又调用了 dist.spawn()：当前已经是多个进程之一",
        fix_zh="直接调用函数 train()，不要用 dist.spawn(train, nprocs=…)；或用 -n 1 启动",
    ),
    Signature(
        name="paddle-fleet-one-rank",
        framework=_P,
        pattern=(
            r"assert isinstance\(layers, PipelineLayer\)"
            r"|The Layer should be a derived class of PipelineLayer"
        ),
        cause="fleet.distributed_model() with one process takes the model for a pipeline (paddle 3.x)",
        fix="start with two ranks or more (-n 2), or leave distributed_model() out with one",
        cause_zh="只有一个进程时，fleet.distributed_model() 会把模型当作流水线（paddle 3.x）",
        fix_zh="用两个以上的进程启动（-n 2），或单进程时不调用 distributed_model()",
    ),
    Signature(
        name="paddle-no-gpu",
        framework=_P,
        pattern=(
            r"PaddlePaddle is not compiled with CUDA"
            r"|\(InvalidArgument\) use wrong place|No available device found"
        ),
        cause="the program asks for a GPU, and this paddle is the build for CPU only",
        fix="drop paddle.set_device('gpu'), or install paddlepaddle-gpu",
        cause_zh="程序要使用 GPU，但安装的是 CPU 版 paddle",
        fix_zh="去掉 paddle.set_device('gpu')，或安装 paddlepaddle-gpu",
    ),
    Signature(
        name="paddle-not-initialized",
        framework=_P,
        pattern=r"The global group is not initialized|Call paddle\.distributed\.init_parallel_env first",
        cause="a collective is called before init_parallel_env(), on some rank at least",
        fix="call paddle.distributed.init_parallel_env() (or fleet.init) first, on every rank",
        cause_zh="在 init_parallel_env() 之前就调用了集合通信，至少有一个进程如此",
        fix_zh="每个进程都先调用 paddle.distributed.init_parallel_env()（或 fleet.init）",
    ),
    Signature(
        name="paddle-gloo-timeout",
        framework=_P,
        role=Role.WAITED,
        pattern=r"TIMEOUT self_rank = (?:\d+|none) pair_rank = -?\d+|gloo::TimeoutException",
        cause="a collective got no answer: the other rank has ended, or took another branch",
        fix="let every rank take the same number of steps and call the same collectives",
        cause_zh="集合通信没有得到回应：另一个进程已经结束，或走了别的分支",
        fix_zh="让每个进程执行相同的步数，并调用同样的集合通信",
    ),
    Signature(
        name="paddle-store-timeout",
        framework=_P,
        role=Role.WAITED,
        pattern=r"Wait timeout for key\(s\)",
        cause="a rank did not come to init_parallel_env() in time",
        fix="call init_parallel_env() on every rank, before any work that takes long on some of them",
        cause_zh="有进程没有按时执行到 init_parallel_env()",
        fix_zh="每个进程都调用 init_parallel_env()，并放在个别进程的耗时工作之前",
    ),
    Signature(
        name="paddle-unused-parameters",
        framework=_P,
        pattern=r"[Pp]lease set find_unused_parameters=True|Please set `?find_unused_parameters",
        cause="some parameters took no part in the loss, or one got its gradient twice",
        fix="paddle.DataParallel(model, find_unused_parameters=True), or use every output of forward",
        cause_zh="有参数没有参与 loss，或某个参数两次得到梯度",
        fix_zh="paddle.DataParallel(model, find_unused_parameters=True)，或用上 forward 的全部输出",
    ),
    Signature(
        name="paddle-loader-killed",
        framework=_P,
        role=Role.CHILD,
        pattern=(
            r"Blocking queue is killed because the data reader raises an exception"
            r"|DataLoader \d+ workers exit unexpectedly|DataLoader process \(pid \d+\) exited unexpectedly"
            r"|DataLoader reader thread raised an exception"
        ),
        cause="a DataLoader worker failed; its own error stands in the rank's log",
        fix="set num_workers=0 to see the error in the rank itself",
        cause_zh="DataLoader 的工作进程出错；它自己的错误在该进程的日志里",
        fix_zh="设 num_workers=0，在主进程里查看错误",
    ),
    Signature(
        name="paddle-loader-shm",
        framework=_P,
        pattern=(
            r"Unexpected BUS error encountered in DataLoader worker"
            r"|DataLoader process \(pid +\d+\) exited is killed by signal: Bus error"
        ),
        cause="/dev/shm is full: DataLoader workers hand their batches over in shared memory",
        fix="use_shared_memory=False, fewer workers, or a larger /dev/shm (docker: --shm-size=8g)",
        cause_zh="/dev/shm 已满：DataLoader 的工作进程通过共享内存传递批次",
        fix_zh="设 use_shared_memory=False，减少工作进程，或增大 /dev/shm（docker: --shm-size=8g）",
    ),
    Signature(
        name="paddle-batch-sampler",
        framework=_P,
        pattern=r"batch_size/shuffle/drop_last should not be set when batch_sampler is given",
        cause="the DataLoader got a batch_sampler and besides it batch_size, shuffle or drop_last",
        fix=(
            "give those to the sampler: DistributedBatchSampler(data, batch_size, shuffle=True, "
            "drop_last=True)"
        ),
        cause_zh="DataLoader 有了 batch_sampler，又设置了 batch_size、shuffle 或 drop_last",
        fix_zh="把它们交给 sampler：DistributedBatchSampler(data, batch_size, shuffle=True, drop_last=True)",
    ),
    Signature(
        name="paddle-iterable-sampler",
        framework=_P,
        pattern=r"IterableDataset expect unspecified batch_sampler|IterableDataset does not support shuffle",
        cause="an IterableDataset chooses its own order, so it takes no sampler",
        fix="drop batch_sampler=, pass batch_size=; split the data in __iter__ by dist.get_rank()",
        cause_zh="IterableDataset 自己决定顺序，不能再用 sampler",
        fix_zh="去掉 batch_sampler=，传入 batch_size=；在 __iter__ 里按 dist.get_rank() 划分数据",
    ),
    Signature(
        name="paddle-collate-shapes",
        pattern=r"all input arrays must have the same shape",
        cause="samples of different shapes cannot be stacked into one batch",
        fix="resize or pad the samples in the dataset, or give the DataLoader a collate_fn that pads",
        cause_zh="形状不同的样本无法堆叠成一个批次",
        fix_zh="在数据集里缩放或补齐样本，或给 DataLoader 一个会补齐的 collate_fn",
    ),
    Signature(
        name="paddle-label-out-of-range",
        framework=_P,
        pattern=(
            r"label value should less than the shape of axis dimension"
            r"|Label value should .* number of classes"
        ),
        cause="a label is not below the number of classes that the model puts out",
        fix="make the last layer as wide as there are classes, or count labels from 0",
        cause_zh="有标签超出了模型输出的类别数",
        fix_zh="让最后一层的宽度等于类别数，或让标签从 0 开始",
    ),
    Signature(
        name="paddle-embedding-range",
        framework=_P,
        pattern=(
            r"of OP\((?:\w*embedding|lookup_table\w*)\) expected"
            r" >= 0 and < (?P<size>\d+), but got (?P<got>-?\d+)"
        ),
        cause="the id {got} is not below the {size} rows of the embedding",
        fix="make num_embeddings larger than the largest id, and check the ids",
        cause_zh="id {got} 超出了 embedding 的 {size} 行",
        fix_zh="让 num_embeddings 大于最大的 id，并检查 id",
    ),
    Signature(
        name="paddle-matmul-shapes",
        framework=_P,
        pattern=(
            r"dimension of Input\(X\) must be equal to the .* dimension of Input\(Y\)"
            r"|Input\(Y\) has error dim"
        ),
        cause="a linear layer or matmul got another number of features than its weights have",
        fix="make in_features of that layer the last number of its input's shape (print(x.shape) before it)",
        cause_zh="线性层或 matmul 得到的特征数与权重不符",
        fix_zh="让该层的 in_features 等于输入形状的最后一个数（在它之前 print(x.shape)）",
    ),
    Signature(
        name="paddle-broadcast",
        framework=_P,
        pattern=r"Broadcast dimension mismatch",
        cause="two tensors whose shapes do not fit meet in one operation",
        fix="print both shapes before that line; a missing unsqueeze, transpose or last batch is common",
        cause_zh="形状不匹配的两个张量参与同一个运算",
        fix_zh="在该行之前打印两个形状；常见原因是缺少 unsqueeze、transpose，或最后一个不满的批次",
    ),
    Signature(
        name="paddle-conv-channels",
        framework=_P,
        pattern=r"The number of input's channels should be equal to filter's channels",
        cause="the convolution expects another number of channels than the images have",
        fix=(
            "set in_channels to the images' second dimension; the order is N, C, H, W unless "
            "data_format says so"
        ),
        cause_zh="卷积期望的通道数与图像不符",
        fix_zh="把 in_channels 设为图像的第二维；除非设置 data_format，顺序是 N, C, H, W",
    ),
    Signature(
        name="paddle-reshape",
        framework=_P,
        pattern=r"The 'shape' in ReshapeOp is invalid|The 'shape' attribute in ReshapeOp",
        cause="the values do not fit the new shape",
        fix=(
            "use -1 for one dimension, or paddle.flatten(x, 1); a smaller last batch also ends so "
            "(drop_last=True)"
        ),
        cause_zh="元素个数放不进新的形状",
        fix_zh="把其中一维写成 -1，或用 paddle.flatten(x, 1)；最后一个不满的批次也会这样（drop_last=True）",
    ),
    Signature(
        name="paddle-dtype",
        framework=_P,
        pattern=(
            r"The type of data we are trying to retrieve \((?P<want>\w+)\)"
            r" does not match the type of data \((?P<got>\w+)\)"
        ),
        cause="an operation wants {want} and got {got} (numpy's floats are float64)",
        fix="x = x.astype('{want}')",
        cause_zh="运算需要 {want}，得到的是 {got}（numpy 的浮点数是 float64）",
        fix_zh="x = x.astype('{want}')",
    ),
    Signature(
        name="paddle-in-place",
        framework=_P,
        pattern=r"used in gradient computation has been modified by an inplace operation",
        cause="a tensor that backward() still needs was changed in place (add_, x[…] =)",
        fix="write x = x + 1 instead of x.add_(1)",
        cause_zh="backward() 还需要的张量被原地修改了（add_、x[…] =）",
        fix_zh="把 x.add_(1) 写成 x = x + 1",
    ),
    Signature(
        name="paddle-backward-twice",
        framework=_P,
        pattern=r"You calculate backward twice for the same subgraph",
        cause="backward() ran a second time over the same graph",
        fix="add up losses before one backward(); detach() what goes over to the next step",
        cause_zh="对同一个计算图第二次执行 backward()",
        fix_zh="先把 loss 相加再 backward() 一次；带到下一步的张量用 detach()",
    ),
    Signature(
        name="paddle-load-missing",
        framework=_P,
        pattern=r"The ``path`` \((?P<path>[^)]*)\) to load model not exists",
        cause="there is no file {path}, seen from the rank's working directory",
        fix="check the name and --cwd; let rank 0 save, then dist.barrier(), then load",
        cause_zh="在该进程的工作目录下没有文件 {path}",
        fix_zh="检查文件名和 --cwd；先由进程 0 保存，dist.barrier() 之后再加载",
    ),
    Signature(
        name="paddle-load-corrupt",
        framework=_P,
        pattern=r"`paddle\.load` can not parse the file",
        cause=(
            "the file is no checkpoint, or is incomplete: still being written, or written by several "
            "ranks at once"
        ),
        fix=(
            "save on rank 0 alone under another name, then os.replace() it; dist.barrier() before the "
            "others load"
        ),
        cause_zh="文件不是检查点，或不完整：还在写，或多个进程同时写了它",
        fix_zh="只在进程 0 上用临时文件名保存，再 os.replace()；其他进程加载之前 dist.barrier()",
    ),
    Signature(
        name="paddle-memory",
        framework=_P,
        pattern=r"\(ResourceExhausted\) Fail to alloc memory of (?P<size>\d+) size",
        cause="the machine has no {size} bytes of memory left for this tensor",
        fix="check the shape; smaller batches or fewer ranks, since each has its own copy",
        cause_zh="机器没有 {size} 字节内存给这个张量",
        fix_zh="检查形状；减小批次或进程数，每个进程都有一份拷贝",
    ),
    Signature(
        name="paddle-no-parameters",
        framework=_P,
        pattern=r"parameters argument given to the Optimizer should not be None",
        cause="the optimizer was given no parameters",
        fix="pass parameters=model.parameters()",
        cause_zh="优化器没有得到参数",
        fix_zh="传入 parameters=model.parameters()",
    ),
)
