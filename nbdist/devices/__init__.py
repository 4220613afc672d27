"""What ranks compute on and what they use of it: GPUs by NVML, memory and CPU per process tree."""

from nbdist.devices.gpus import Gpu, GpuUse, list_gpus, memory_by_pid
from nbdist.devices.usage import TreeUsage, cpu_count, tree_usage

__all__ = ["Gpu", "GpuUse", "TreeUsage", "cpu_count", "list_gpus", "memory_by_pid", "tree_usage"]
