# expect: rank any
# cause: 2\.6|more than tensors
# fix: weights_only=False|add_safe_globals
"""allenai/open-instruct#673: a checkpoint that holds the arguments, too, and torch 2.6 or newer."""

import argparse
import os

import torch

arguments = argparse.Namespace(epochs=3)
path = f"checkpoint-{os.environ['RANK']}.pt"
torch.save({"model": torch.nn.Linear(2, 2).state_dict(), "args": arguments}, path)
state = torch.load(path)  # here
