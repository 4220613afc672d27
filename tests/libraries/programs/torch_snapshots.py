# line: -n 2 --retries 1 --args "4 1"
# each: Epoch 3 \| Batchsize: 16 \| Steps: 2
# first: Resuming training from snapshot at Epoch 2
# more: a run that begins again is in tests/faults
"""A Trainer class that saves snapshots and goes on from them after a restart."""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SNAPSHOT = os.path.join(os.environ["NBDIST_RUN_DIR"], "snapshot.pt")


class Trainer:
    def __init__(self, model, train_data, optimizer, save_every):
        self.rank = int(os.environ["LOCAL_RANK"])
        self.model, self.train_data = model, train_data
        self.optimizer, self.save_every = optimizer, save_every
        self.epochs_run = 0
        if os.path.exists(SNAPSHOT):
            snapshot = torch.load(SNAPSHOT)
            self.model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
            print(f"Resuming training from snapshot at Epoch {self.epochs_run}")
        self.model = DDP(self.model)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        F.mse_loss(self.model(source), targets).backward()
        self.optimizer.step()

    def _run_epoch(self, epoch):
        size = len(next(iter(self.train_data))[0])
        print(f"[{self.rank}] Epoch {epoch} | Batchsize: {size} | Steps: {len(self.train_data)}")
        self.train_data.sampler.set_epoch(epoch)
        for source, targets in self.train_data:
            self._run_batch(source, targets)

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            self._run_epoch(epoch)
            if self.rank == 0 and epoch % self.save_every == 0:
                torch.save({"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}, SNAPSHOT)
            dist.barrier()
            if epoch == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                raise RuntimeError("a machine that is taken away")


def main(total_epochs, save_every):
    dist.init_process_group(backend="gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.rand(64, 20), torch.rand(64, 1))
    model = torch.nn.Linear(20, 1)
    data = DataLoader(dataset, batch_size=16, shuffle=False, sampler=DistributedSampler(dataset))
    Trainer(model, data, torch.optim.SGD(model.parameters(), lr=1e-3), save_every).train(total_epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
