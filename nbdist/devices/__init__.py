"""Devices of the ranks and their use: GPUs by NVML, memory and CPU per process tree, disks."""
