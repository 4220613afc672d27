"""What ranks compute on and what they use of it: GPUs by NVML, memory and CPU per process tree."""
