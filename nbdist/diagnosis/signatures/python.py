"""Python, the operating system and the libraries beside the frameworks."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Role, Signature

SIGNATURES = (
    Signature(
        name="spawn-main-attribute",
        pattern=r"Can't get attribute '(?P<name>\w+)' on <module '__(?:mp_)?main__'",
        cause="the started process does not find {name}: it is defined after or inside what starts it",
        fix="define {name} at the top level of the program, above the line that starts processes",
        cause_zh="启动的子进程找不到 {name}：它定义在启动语句之后或内部",
        fix_zh="把 {name} 定义在程序最外层，放在启动进程的语句之前",
    ),
    Signature(
        name="spawn-no-guard",
        pattern=r"start a new process before the\s+current process has finished its bootstrapping phase",
        cause="a started process runs the whole program again, and would start processes itself",
        fix="put what starts processes under: if __name__ == '__main__':",
        cause_zh="启动的子进程又从头运行整个程序，并再次启动进程",
        fix_zh="把启动进程的语句放在 if __name__ == '__main__': 之下",
    ),
    Signature(
        name="spawn-daemonic",
        pattern=r"daemonic processes are not allowed to have children",
        cause="a DataLoader worker or pool process starts processes of its own",
        fix="num_workers=0 inside it, or start the inner processes in the rank itself",
        cause_zh="DataLoader 工作进程或进程池里的进程又启动了子进程",
        fix_zh="在其中设 num_workers=0，或在进程本身里启动这些进程",
    ),
    Signature(
        name="spawn-child-signal",
        pattern=r"process \d+ terminated with signal SIG(?P<signal>\w+)",
        cause="a process that this rank started was ended by SIG{signal}; KILL is mostly lack of memory",
        fix="watch memory while it runs; let nbdist start the ranks (-n 2) in place of spawn",
        cause_zh="本进程启动的子进程被 SIG{signal} 结束；KILL 多半是内存不足",
        fix_zh="运行时观察内存；让 nbdist 启动各进程（-n 2），不要用 spawn",
    ),
    Signature(
        name="spawn-child-exit",
        role=Role.CHILD,
        pattern=(
            r"[Pp]rocess \d+ (?:exited|terminated) with (?:exit code|the following error)"
            r"|BrokenProcessPool: A process in the process pool was terminated abruptly"
        ),
        cause="a process that this rank started ended with an error",
        fix="let nbdist start the ranks (-n 2) in place of spawn: then each has its own log",
        cause_zh="本进程启动的子进程出错结束",
        fix_zh="让 nbdist 启动各进程（-n 2），不要用 spawn：这样每个进程有自己的日志",
    ),
    Signature(
        name="module-missing",
        pattern=r"ModuleNotFoundError: No module named '(?P<module>(?!paddle\.fluid)[^']+)'",
        cause=(
            "this Python has no module {module}: not installed in the kernel's environment, or not on "
            "the path"
        ),
        fix="%pip install it in this kernel; for a file of yours: --cwd, or put it beside the notebook",
        cause_zh="当前 Python 没有模块 {module}：没有装在内核的环境里，或不在路径上",
        fix_zh="在本内核里 %pip install；如果是自己的文件，用 --cwd 或放在笔记本旁边",
    ),
    Signature(
        name="import-name",
        pattern=(
            r"ImportError: cannot import name '(?P<name>\w+)' from"
            r" (?:partially initialized module )?'(?P<module>[\w.]+)'"
        ),
        cause="{module} has no {name}: another version, a circular import, or a file of yours with that name",
        fix="check the version of {module}, and that no file in the working directory is called like it",
        cause_zh="{module} 里没有 {name}：版本不同、循环导入，或你的文件与它同名",
        fix_zh="检查 {module} 的版本，以及工作目录里有没有同名文件",
    ),
    Signature(
        name="syntax-error",
        pattern=r"^(?:SyntaxError|IndentationError|TabError): ",
        cause="a file that is imported is not valid Python; the last line of the traceback says where",
        fix="mend that file; the program itself is correct",
        cause_zh="被导入的文件不是合法的 Python；回溯的最后一行指出了位置",
        fix_zh="修正那个文件；程序本身没有问题",
    ),
    Signature(
        name="numpy-versions",
        pattern=(
            r"numpy\.core\.multiarray failed to import|numpy\.dtype size changed"
            r"|compiled using NumPy 1\.x cannot be run in|_ARRAY_API not found|Numpy is not available"
        ),
        cause="a library was built for another major version of numpy than the one that is installed",
        fix="%pip install 'numpy<2', or newer builds of that library; then restart the kernel",
        cause_zh="某个库是为另一个大版本的 numpy 编译的",
        fix_zh="%pip install 'numpy<2'，或升级那个库；然后重启内核",
    ),
    Signature(
        name="library-version",
        pattern=r"GLIBC(?:XX)?_[\d.]+' not found|undefined symbol: ",
        cause=(
            "a compiled library does not fit the others: built for another version of torch, paddle or "
            "the system"
        ),
        fix="reinstall the package that is named, built for the installed framework",
        cause_zh="编译好的库与其他库不匹配：是为另一个版本的 torch、paddle 或系统编译的",
        fix_zh="重新安装被点名的包，选择与已安装框架匹配的版本",
    ),
    Signature(
        name="openmp-twice",
        pattern=r"OMP: Error #15",
        cause="two libraries brought their own copy of OpenMP",
        fix="install numpy and the framework from the same source (both pip, or both conda)",
        cause_zh="两个库各自带了一份 OpenMP",
        fix_zh="用同一来源安装 numpy 和框架（都用 pip，或都用 conda）",
    ),
    Signature(
        name="threads-exhausted",
        pattern=(
            r"can't start new thread|Thread creation failed: Resource temporarily unavailable"
            r"|OpenBLAS blas_thread_init"
        ),
        cause="the limit on processes and threads of this user or container is reached",
        fix="fewer ranks and DataLoader workers; OMP_NUM_THREADS=1 (nbdist's default); raise  ulimit -u",
        cause_zh="达到了该用户或容器的进程、线程数上限",
        fix_zh="减少进程和 DataLoader 工作进程；OMP_NUM_THREADS=1（nbdist 的默认值）；调大  ulimit -u",
    ),
    Signature(
        name="too-many-open-files",
        pattern=r"Too many open files|unable to open file descriptors|No file descriptors available",
        cause="the rank has as many files, sockets and pipes open as it may have (ulimit -n)",
        fix=(
            "close them (with open(...) as file); or allow more:  ulimit -n 65536  before Jupyter, or"
            "  resource.setrlimit  in the cell"
        ),
        cause_zh="该进程打开的文件、套接字和管道数达到上限（ulimit -n）",
        fix_zh=(
            "及时关闭（with open(...) as file）；或在启动 Jupyter 之前  ulimit -n 65536，"
            "或在单元里用  resource.setrlimit"
        ),
    ),
    Signature(
        name="disk-full",
        # the words of Python, the system, torch.save, numpy's tofile and SQLite
        pattern=(
            r"(?i)errno 28\]|No space left on device(?!.*torch_)|Disk quota exceeded"
            r"|PytorchStreamWriter failed writing|inline_container\.cc:\d+\] \. unexpected pos \d+ vs"
            r"|OSError: \d+ requested and \d+ written|database or disk is full"
        ),
        cause="the disk (or the quota) is full",
        fix="delete old checkpoints and runs (NBDIST_KEEP_GB=5 keeps fewer); save to another disk",
        cause_zh="磁盘（或配额）已满",
        fix_zh="删除旧的检查点和运行（NBDIST_KEEP_GB=5 可少留一些）；保存到其他磁盘",
    ),
    Signature(
        name="permission-denied",
        pattern=r"^PermissionError: \[Errno 13\] Permission denied: '(?P<path>[^']*)'",
        cause="this user may not write or read {path}",
        fix="use a directory of your own; data that is shared is mostly read-only",
        cause_zh="当前用户无权读写 {path}",
        fix_zh="使用自己的目录；共享的数据多半是只读的",
    ),
    Signature(
        name="file-missing",
        pattern=r"^FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<path>(?!/dev/shm)[^']*)'",
        cause="there is no {path}; a relative path is taken from the working directory of the run",
        fix="check the name and --cwd; what rank 0 makes, others may open only after dist.barrier()",
        cause_zh="没有 {path}；相对路径以运行的工作目录为准",
        fix_zh="检查路径和 --cwd；进程 0 创建的文件，其他进程要在 dist.barrier() 之后才能打开",
    ),
    Signature(
        name="file-made-twice",
        pattern=r"^FileExistsError: \[Errno 17\] File exists: '(?P<path>[^']*)'",
        cause="{path} is already there: another rank or an earlier run made it first",
        fix="os.makedirs(path, exist_ok=True), or make it on rank 0 alone and then dist.barrier()",
        cause_zh="{path} 已经存在：其他进程或之前的运行先创建了它",
        fix_zh="os.makedirs(path, exist_ok=True)，或只在进程 0 上创建，然后 dist.barrier()",
    ),
    Signature(
        name="port-in-use",
        pattern=r"^OSError: \[Errno 98\] Address already in use",
        cause="a port that the program opens itself is taken: every rank opens the same one",
        fix="open it on rank 0 alone, or use port 0 and let the system choose",
        cause_zh="程序自己打开的端口已被占用：每个进程都打开了同一个端口",
        fix_zh="只在进程 0 上打开，或用端口 0 让系统选择",
    ),
    Signature(
        name="no-network",
        pattern=(
            r"Temporary failure in name resolution|Name or service not known|Failed to resolve '"
            r"|getaddrinfo failed|nodename nor servname provided|Network is unreachable"
        ),
        cause="a name or an address on the network cannot be reached from this machine",
        fix="download beforehand and pass the local path; behind a proxy set https_proxy",
        cause_zh="本机无法访问网络上的某个名字或地址",
        fix_zh="提前下载并使用本地路径；有代理时设置 https_proxy",
    ),
    Signature(
        name="memory",
        pattern=(
            r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)"
            r"|^(?:numpy\.\S*_Array)?MemoryError(?!: \(Resource)|Cannot allocate memory(?!\))|std::bad_alloc"
        ),
        cause="the machine has no memory left for this",
        fix="check the shape; smaller batches, fewer workers or fewer ranks, since each has its own copy",
        cause_zh="机器内存不足",
        fix_zh="检查形状；减小批次、工作进程或进程数，每个进程都有一份拷贝",
    ),
    Signature(
        name="recursion",
        pattern=r"^RecursionError: ",
        cause="a function calls itself without end",
        fix="look at the lines that repeat in the traceback; __getattr__ and forward are common places",
        cause_zh="函数无限地调用自己",
        fix_zh="查看回溯中重复出现的行；常见于 __getattr__ 和 forward",
    ),
    Signature(
        name="arguments",
        pattern=r"^SystemExit: 2$",
        cause="the program refused its arguments (argparse)",
        fix='pass them as  %%distributed --args "--epochs 2" ; in a cell parse_args([]) takes the defaults',
        cause_zh="程序不接受给它的参数（argparse）",
        fix_zh='用  %%distributed --args "--epochs 2"  传参；在程序里 parse_args([]) 会使用默认值',
    ),
    Signature(
        name="interrupted",
        pattern=r"^KeyboardInterrupt",
        cause="the rank was interrupted",
        fix="nothing in the program is wrong: run the program again when it should go on",
        cause_zh="该进程被中断",
        fix_zh="程序本身没有问题：需要时重新运行程序",
    ),
)
