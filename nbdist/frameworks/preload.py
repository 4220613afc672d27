"""What a rank that waits imports ahead: the framework's own modules, also those that it imports late."""

PRELOADED: dict[str, tuple[str, ...]] = {
    "torch": (
        "torch",
        "torch.distributed",
        "torch.nn.parallel",
        "torch.utils.data",
        "torch.utils.data.distributed",
        "torch.optim",
        # the first optimizer imports it, with some 800 more
        "torch._dynamo",
    ),
    "paddle": ("paddle", "paddle.distributed", "paddle.distributed.fleet"),
    "jax": ("jax", "jax.numpy", "jax.distributed", "jax.experimental.multihost_utils"),
}

READ_UNSEEN = (
    # the interpreter and the C library
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "LOCPATH",
    "TZ",
    "TMP",
    "TEMP",
    "HOME",
    "PATH",
    "GLIBC_",
    "MALLOC_",
    "VIRTUAL_ENV",
    "CONDA_",
    # threads and the libraries that compute
    "OMP_",
    "GOMP_",
    "KMP_",
    "LIBOMP",
    "MKL_",
    "OPENBLAS_",
    "GOTO_",
    "BLIS_",
    "TBB_",
    "DNNL_",
    "ONEDNN_",
    "NUMEXPR_",
    "NUMPY_",
    "NPY_",
    # the frameworks
    "TORCH",
    "PYTORCH_",
    "ATEN_",
    "AT_",
    "AOT",
    "C10",
    "CAFFE2_",
    "KINETO_",
    "INDUCTOR_",
    "TRITON_",
    "FLAGS_",
    "PADDLE_",
    "GLOG_",
    "GFLAGS",
    "CPU_NUM",
    "JIT_",
    "XLA_",
    "JAX_",
    "TF_",
    # devices and what connects them
    "CUDA",
    "CUDNN_",
    "CUBLAS_",
    "NVIDIA_",
    "NCCL_",
    "HIP_",
    "HSA_",
    "ROCR_",
    "GPU_",
    "XPU_",
    "ZE_",
    "GLOO_",
    "TP_",
    "UCX_",
)
"""Native code reads its variables unseen; so these beginnings stand for all that it may have read."""


def read_at_import(name: str, seen: frozenset[str]) -> bool:
    """Whether a variable may have been read by an import; ``seen`` are those that Python code asked for."""
    return name in seen or name.startswith(READ_UNSEEN)
