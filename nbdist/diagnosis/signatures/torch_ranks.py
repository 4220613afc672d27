"""torch.distributed: how ranks meet, and what they say when they do not."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Role, Signature

SIGNATURES = (
    Signature(
        name="group-not-initialized",
        framework="torch",
        pattern=r"Default process group has not been initialized",
        cause="this rank uses torch.distributed before it called init_process_group()",
        fix="call dist.init_process_group() at the start of the program, on every rank, not on rank 0 alone",
        cause_zh="本进程在调用 init_process_group() 之前就使用了 torch.distributed",
        fix_zh="在程序开头调用 dist.init_process_group()，每个进程都要调用，不能只在进程 0 上调用",
    ),
    Signature(
        name="init-variable-missing",
        framework="torch",
        pattern=r"environment variable (?P<variable>RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected",
        cause="the environment variable {variable} is gone: the program removes or empties what nbdist sets",
        fix="do not touch RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the program; nbdist sets them",
        cause_zh="环境变量 {variable} 不见了：程序里删除或清空了 nbdist 设好的变量",
        fix_zh="不要在程序里改动 RANK、WORLD_SIZE、MASTER_ADDR、MASTER_PORT，nbdist 已经设好",
    ),
    Signature(
        name="store-port-in-use",
        framework="torch",
        pattern=r"server socket has failed to (?:listen|bind).*EADDRINUSE|DistNetworkError.*EADDRINUSE",
        cause="the port of the rendezvous is already taken, often one that the program writes out itself",
        fix="drop MASTER_PORT and init_method='tcp://…' from the program: nbdist chooses a free port",
        cause_zh="会合用的端口已被占用，通常是程序里写死的端口",
        fix_zh="去掉程序里的 MASTER_PORT 和 init_method='tcp://…'，nbdist 会选一个空闲端口",
    ),
    Signature(
        name="store-world-size-zero",
        framework="torch",
        pattern=r"TCPStore world size cannot be 0",
        cause="world_size is 0, as torch.cuda.device_count() is where a rank sees no GPU",
        fix="leave world_size out: dist.init_process_group() reads the number of ranks from the environment",
        cause_zh="world_size 为 0：在看不到 GPU 的进程里 torch.cuda.device_count() 就是 0",
        fix_zh="不要写 world_size：dist.init_process_group() 会从环境变量读取进程数",
    ),
    Signature(
        name="store-clients-missing",
        framework="torch",
        role=Role.WAITED,
        pattern=(
            r"Timed out after \d+ seconds waiting for clients\."
            r" (?P<came>\d+)/(?P<all>\d+) clients joined"
        ),
        cause="only {came} of {all} ranks reached init_process_group()",
        fix="call init_process_group() on every rank, and before any work that takes long on some of them",
        cause_zh="{all} 个进程中只有 {came} 个执行到 init_process_group()",
        fix_zh="让每个进程都调用 init_process_group()，并放在个别进程的耗时工作之前",
    ),
    Signature(
        name="store-not-reached",
        framework="torch",
        role=Role.WAITED,
        pattern=r"client socket has timed out after \d+ms while trying to connect to \((?P<where>[^)]+)\)",
        cause="nothing listens at {where}: rank 0 is not there, or the address is written wrong",
        fix="drop MASTER_ADDR, MASTER_PORT and init_method from it; look at what rank 0 did meanwhile",
        cause_zh="{where} 上没有进程在监听：进程 0 没有到达，或者地址写错了",
        fix_zh="去掉程序里的 MASTER_ADDR、MASTER_PORT 和 init_method，并查看进程 0 当时在做什么",
    ),
    Signature(
        name="store-wait-timeout",
        framework="torch",
        role=Role.WAITED,
        pattern=(
            r"DistStoreError: wait timeout after \d+ms, keys"
            r"|Socket Timeout|store->(?:get|wait).*timed? ?out"
        ),
        cause="this rank waited for a key that another rank should have stored, and it never came",
        fix="let every rank go through the same init_process_group(), new_group() and barrier() calls",
        cause_zh="本进程在等另一个进程写入的键，但一直没有等到",
        fix_zh="让每个进程都执行同样的 init_process_group()、new_group()、barrier() 调用",
    ),
    Signature(
        name="store-closed",
        framework="torch",
        role=Role.GONE,
        pattern=(
            r"[Ff]ailed to (?:recv, got|send, sent) 0 bytes"
            r"|DistNetworkError: .*(?:recvValue|sendBytes|recvBytes)|Failed to check the \"should dump\" flag"
        ),
        cause="the store on rank 0 has gone: rank 0 ended first",
        fix="look at rank 0, or end every rank with dist.barrier(); dist.destroy_process_group()",
        cause_zh="进程 0 上的 store 已经消失：进程 0 先结束了",
        fix_zh="查看进程 0；或者让每个进程最后执行 dist.barrier()、dist.destroy_process_group()",
    ),
    Signature(
        name="init-twice",
        framework="torch",
        pattern=r"trying to initialize the default process group twice",
        cause="init_process_group() is called a second time in the same process",
        fix="call it once, or guard it with: if not dist.is_initialized()",
        cause_zh="同一进程里第二次调用了 init_process_group()",
        fix_zh="只调用一次，或者加上判断：if not dist.is_initialized()",
    ),
    Signature(
        name="backend-unknown",
        framework="torch",
        pattern=r"Unknown (?:c10d )?backend type|Invalid backend: '|unknown backend",
        cause="torch knows no backend of that name",
        fix="write dist.init_process_group() without a backend, or with 'gloo' (CPU) or 'nccl' (GPU)",
        cause_zh="torch 没有这个名字的通信后端",
        fix_zh="调用 dist.init_process_group() 时不写后端，或写 'gloo'（CPU）、'nccl'（GPU）",
    ),
    Signature(
        name="nccl-not-built",
        framework="torch",
        pattern=(
            r"Distributed package doesn't have NCCL built in"
            r"|ProcessGroupNCCL is only supported with GPUs"
        ),
        cause="the backend 'nccl' needs GPUs and a torch that was built with CUDA",
        fix="write dist.init_process_group() without a backend: it takes gloo on CPU and NCCL on GPU",
        cause_zh="'nccl' 后端需要 GPU 和带 CUDA 的 torch",
        fix_zh="调用 dist.init_process_group() 时不写后端：CPU 上用 gloo，GPU 上用 NCCL",
    ),
    Signature(
        name="rank-out-of-range",
        framework="torch",
        pattern=(
            r"Invalid rank -?\d+, rank should be in the interval"
            r"|(?:broadcast|reduce|gather|scatter): invalid root rank: \d+"
            r"|the new group's (?:rank|world size) should be"
            r"|The new group's rank should be within"
        ),
        cause="a rank is named that this run does not have",
        fix="take ranks from dist.get_rank() and dist.get_world_size(); write no numbers of another machine",
        cause_zh="用到了本次运行中不存在的进程编号",
        fix_zh="用 dist.get_rank() 和 dist.get_world_size() 取编号，不要写死其他机器上的数字",
    ),
    Signature(
        name="send-to-itself",
        framework="torch",
        pattern=r"Invalid destination rank: destination rank should not be the same as the rank",
        cause="a rank sends a message to itself",
        fix="send only where the destination is another rank, as in: if dist.get_rank() != destination",
        cause_zh="进程给自己发送消息",
        fix_zh="只向其他进程发送，例如：if dist.get_rank() != destination",
    ),
    Signature(
        name="gloo-interface",
        framework="torch",
        pattern=(
            r"[Uu]nable to find (?:address|interface) for"
            r"|Unable to resolve hostname to a \(local\) address"
        ),
        cause="gloo finds no network address of this machine under that interface or host name",
        fix="unset GLOO_SOCKET_IFNAME, or set it to an interface that  ip addr  lists, for example lo",
        cause_zh="gloo 在该网卡或主机名下找不到本机地址",
        fix_zh="取消 GLOO_SOCKET_IFNAME，或设为  ip addr  列出的网卡，例如 lo",
    ),
    Signature(
        name="gloo-connect",
        framework="torch",
        role=Role.WAITED,
        pattern=r"Gloo connectFullMesh failed|connect\w* \[[^\]]*\]:\d+: (?:Connection refused|timed out)",
        cause="the ranks could not all connect to each other; one ended early or is held by a firewall",
        fix="look at the rank that is missing; on several networks set GLOO_SOCKET_IFNAME to the common one",
        cause_zh="各进程之间没能全部连通：有的提前结束，或被防火墙拦住",
        fix_zh="查看缺席的进程；有多个网络时把 GLOO_SOCKET_IFNAME 设为共同的网卡",
    ),
    Signature(
        name="peer-closed",
        role=Role.GONE,
        pattern=(
            r"Connection closed by peer|Connection reset by peer|BrokenPipeError|Broken pipe"
            r"|Transport endpoint is not connected|gloo::IoException"
        ),
        cause="another rank closed its connection before this one was done with it",
        fix="look at the rank that ended first; let every rank take the same number of steps",
        cause_zh="另一个进程在本进程用完连接之前就关闭了连接",
        fix_zh="查看最先结束的进程；让每个进程执行相同的步数",
    ),
    Signature(
        name="monitored-barrier",
        framework="torch",
        role=Role.WAITED,
        pattern=r"Rank (?P<absent>\d+) failed to pass monitoredBarrier|monitoredBarrier in \d+ ms",
        cause="a rank did not reach monitored_barrier() in time",
        fix="look at what that rank does before the barrier: another branch, slow work, an early end",
        cause_zh="有进程没有按时到达 monitored_barrier()",
        fix_zh="查看该进程在 barrier 之前做了什么：走了别的分支、耗时工作，或提前结束",
    ),
    Signature(
        name="gloo-timeout",
        framework="torch",
        role=Role.WAITED,
        pattern=(
            r"Timed out waiting (?P<limit>\d+)ms for (?:recv|send) operation"
            r"|Application timeout caused pair"
        ),
        cause="a collective did not complete in its time limit: a rank did not come, or took another branch",
        fix="let every rank call the same collectives in the same order; raise timeout= only for slow work",
        cause_zh="集合通信在时限内没有完成：有进程没有到达，或走了别的分支",
        fix_zh="让每个进程按同样的顺序调用同样的集合通信；只有确实很慢时才调大 timeout=",
    ),
    Signature(
        name="collective-sizes",
        framework="torch",
        pattern=(
            r"op\.preamble\.length <= op\.nbytes|invalid tensor size at index \d+ \(expected"
            r"|Received data size doesn't match expected size"
        ),
        cause="the ranks gave tensors of different sizes to the same collective",
        fix="give it the same shape and dtype on every rank; pad, or exchange the sizes first",
        cause_zh="各进程给同一个集合通信传入了大小不同的张量",
        fix_zh="每个进程使用相同的形状和 dtype；先补齐，或先交换大小",
    ),
    Signature(
        name="collective-mismatch",
        framework="torch",
        pattern=r"Detected mismatch between collectives on ranks",
        cause="the ranks called different collectives, or the same with different shapes or dtypes",
        fix="let every rank go through the same calls: no collective inside  if rank == 0",
        cause_zh="各进程调用了不同的集合通信，或形状、dtype 不一致",
        fix_zh="让每个进程执行同样的调用：不要把集合通信放在  if rank == 0  里",
    ),
    Signature(
        name="device-mesh-size",
        framework="torch",
        pattern=r"Mesh should not be bigger than default world size",
        cause="the device mesh has more places than the run has ranks",
        fix="make the product of the mesh's shape the number of ranks, or start more ranks with -n",
        cause_zh="device mesh 的大小超过了进程数",
        fix_zh="让 mesh 形状的乘积等于进程数，或用 -n 启动更多进程",
    ),
)
