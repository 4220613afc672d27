"""CUDA, cuDNN and cuBLAS, in torch's and in paddle's words."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Signature

SIGNATURES = (
    Signature(
        name="cuda-out-of-memory",
        pattern=(
            r"CUDA out of memory|CUDA error: out of memory|CUDA error\(2\), out of memory"
            r"|Out of memory error on GPU \d+\. Cannot allocate"
        ),
        cause=(
            "the GPU's memory is full; each rank needs its own copy of model, gradients and optimizer state"
        ),
        fix="smaller batch per rank, autocast or checkpointing; %dist_doctor shows who else is on the GPU",
        cause_zh="GPU 显存不足；每个进程都有自己的一份模型、梯度和优化器状态",
        fix_zh="减小每个进程的批次，用混合精度或重计算；%dist_doctor 可查看谁在占用 GPU",
    ),
    Signature(
        name="cuda-device-assert",
        pattern=r"device-side assert triggered",
        cause="a kernel refused an index: mostly a label that is not below the number of classes",
        fix="check labels and ids (y.min(), y.max()); --env CUDA_LAUNCH_BLOCKING=1 shows the right line",
        cause_zh="GPU 核函数拒绝了某个下标：多半是标签超出类别数",
        fix_zh="检查标签和 id（y.min()、y.max()）；加 --env CUDA_LAUNCH_BLOCKING=1 可看到真正出错的行",
    ),
    Signature(
        name="cuda-illegal-access",
        pattern=r"an illegal memory access was encountered|CUDA error\(700\)|misaligned address",
        cause="a kernel read or wrote outside its memory",
        fix="--env CUDA_LAUNCH_BLOCKING=1 to find the line; look at custom kernels and indices first",
        cause_zh="GPU 核函数访问了不属于它的内存",
        fix_zh="加 --env CUDA_LAUNCH_BLOCKING=1 找到出错的行；先检查自定义算子和下标",
    ),
    Signature(
        name="cuda-no-kernel-image",
        pattern=r"no kernel image is available for execution on the device",
        cause="the framework was built for other GPUs than this one",
        fix="install the build whose CUDA version and architectures cover this GPU",
        cause_zh="安装的框架不支持这个型号的 GPU",
        fix_zh="安装 CUDA 版本和架构都支持该 GPU 的版本",
    ),
    Signature(
        name="cuda-driver-too-old",
        pattern=(
            r"The NVIDIA driver on your system is too old"
            r"|CUDA driver version is insufficient for CUDA runtime"
            r"|the provided PTX was compiled with an unsupported toolchain"
        ),
        cause="the driver is older than the CUDA that the framework was built with",
        fix=(
            "install the framework's build for an older CUDA (nvidia-smi names the highest), or a "
            "newer driver"
        ),
        cause_zh="驱动版本低于框架所用的 CUDA",
        fix_zh="安装更低 CUDA 版本的框架（nvidia-smi 显示支持的最高版本），或升级驱动",
    ),
    Signature(
        name="cuda-no-driver",
        pattern=r"Found no NVIDIA driver on your system",
        cause="this machine has no NVIDIA driver, and so no GPU that a rank could use",
        fix="choose the device by what is there:  'cuda' if torch.cuda.is_available() else 'cpu'",
        cause_zh="这台机器没有 NVIDIA 驱动，进程没有可用的 GPU",
        fix_zh="按实际情况选择设备：'cuda' if torch.cuda.is_available() else 'cpu'",
    ),
    Signature(
        name="cuda-not-visible",
        pattern=r"no CUDA-capable device is detected|No CUDA GPUs are available",
        cause="this rank sees no GPU: CUDA_VISIBLE_DEVICES is empty, as it is for the CPU ranks of -n",
        fix="start with --gpus 0,1 instead of -n; do not set CUDA_VISIBLE_DEVICES in the program",
        cause_zh="本进程看不到 GPU：CUDA_VISIBLE_DEVICES 为空（用 -n 启动的 CPU 进程就是这样）",
        fix_zh="用 --gpus 0,1 代替 -n 启动；不要在程序里设置 CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        name="cuda-invalid-device",
        pattern=r"invalid device ordinal|Invalid device id|CUDA error\(101\)",
        cause="a GPU is named that this rank does not see: each rank sees those of the run, counted from 0",
        fix="torch.cuda.set_device(int(os.environ['LOCAL_RANK'])), not the physical number",
        cause_zh="用到了本进程看不到的 GPU：每个进程只看到本次运行的 GPU，从 0 编号",
        fix_zh="用 torch.cuda.set_device(int(os.environ['LOCAL_RANK']))，不要写物理编号",
    ),
    Signature(
        name="cuda-busy",
        pattern=r"CUDA-capable device\(s\) is/are busy or unavailable",
        cause="the GPU is in exclusive mode and another process holds it, or two ranks share it",
        fix="one GPU per rank (set_device(LOCAL_RANK)); %dist_doctor shows who holds the GPU",
        cause_zh="GPU 处于独占模式并被其他进程占用，或两个进程用了同一块",
        fix_zh="每个进程一块 GPU（set_device(LOCAL_RANK)）；%dist_doctor 可查看谁在占用",
    ),
    Signature(
        name="cuda-ecc",
        pattern=r"uncorrectable (?:NVLink |ECC )?error",
        cause="the GPU reports a hardware error",
        fix="leave that GPU out (--gpus), and tell who runs the machine; a reset may help",
        cause_zh="GPU 报告了硬件错误",
        fix_zh="用 --gpus 避开这块 GPU，并通知机器管理员；重置可能有用",
    ),
    Signature(
        name="cublas",
        pattern=r"CUBLAS_STATUS_(?P<status>\w+)|CUBLAS error\(",
        cause="cuBLAS failed: mostly no memory left for its workspace, or an earlier wrong index",
        fix="smaller batches; try one step on CPU, or --env CUDA_LAUNCH_BLOCKING=1, to see the first error",
        cause_zh="cuBLAS 出错：多半是没有显存放工作区，或之前已有越界的下标",
        fix_zh="减小批次；在 CPU 上试一步，或加 --env CUDA_LAUNCH_BLOCKING=1 查看最初的错误",
    ),
    Signature(
        name="cudnn",
        pattern=(
            r"CUDNN_STATUS_\w+|cuDNN error|Unable to find a valid cuDNN algorithm"
            r"|Cannot load cudnn shared library"
        ),
        cause="cuDNN failed: no memory for its workspace, or a library of another version is found first",
        fix="smaller batches; take foreign CUDA folders out of LD_LIBRARY_PATH",
        cause_zh="cuDNN 出错：没有显存放工作区，或先找到了其他版本的库",
        fix_zh="减小批次；从 LD_LIBRARY_PATH 里去掉其他 CUDA 目录",
    ),
    Signature(
        name="cuda-not-built",
        framework="torch",
        pattern=r"Torch not compiled with CUDA enabled|has no attribute '_cuda_setDevice'",
        cause="this torch is the build for CPU only",
        fix="choose the device by torch.cuda.is_available(), or install a torch with CUDA",
        cause_zh="安装的是只支持 CPU 的 torch",
        fix_zh="用 torch.cuda.is_available() 选择设备，或安装带 CUDA 的 torch",
    ),
    Signature(
        name="cuda-after-fork",
        framework="torch",
        pattern=r"Cannot re-initialize CUDA in forked subprocess",
        cause="a forked process (a DataLoader worker, say) uses CUDA, which its parent has already started",
        fix=(
            "return CPU tensors from the dataset and move them in the loop, or "
            "multiprocessing_context='spawn'"
        ),
        cause_zh="父进程已启动 CUDA，fork 出的子进程（例如 DataLoader 工作进程）又使用 CUDA",
        fix_zh="数据集返回 CPU 张量，在循环里再移到 GPU；或设 multiprocessing_context='spawn'",
    ),
    Signature(
        name="cuda-library-missing",
        pattern=(
            r"lib(?:cudart|cublas|cudnn|nccl|cusparse|cupti|nvrtc|cuda)\w*\.so[.\d]*"
            r"(?:: cannot open shared object file|\) that Paddle depends on is not configured)"
        ),
        cause="a library of CUDA is not found: it belongs to another version, or is not installed",
        fix="reinstall the framework with its own CUDA wheels, in the environment of this kernel",
        cause_zh="找不到 CUDA 的某个库：版本不同或没有安装",
        fix_zh="在本内核的环境里重新安装带有 CUDA 依赖的框架",
    ),
)
