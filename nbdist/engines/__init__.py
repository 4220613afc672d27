"""Engines that place the ranks of a run on other machines: Slurm, Ray, and nodes of Slurm that are kept."""
