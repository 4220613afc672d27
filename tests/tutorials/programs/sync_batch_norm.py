import torch
import torch.distributed as dist
import torch.nn as nn


class SumOverRanks(torch.autograd.Function):
    """all_reduce whose gradient is summed over the ranks, too."""

    @staticmethod
    def forward(ctx, tensor):
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


class SyncBatchNormOnCPU(nn.BatchNorm2d):
    """torch.nn.SyncBatchNorm for CPU ranks, which torch leaves out: mean and variance over all ranks."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        count = torch.tensor([float(x.numel() / x.size(1))])
        sums = SumOverRanks.apply(torch.cat([x.sum((0, 2, 3)), x.square().sum((0, 2, 3)), count]))
        mean, square = (sums[:-1] / sums[-1]).chunk(2)
        variance = square - mean.square()
        with torch.no_grad():
            unbiased = variance * sums[-1] / (sums[-1] - 1)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(unbiased, self.momentum)
        shape = (1, -1, 1, 1)
        x = (x - mean.view(shape)) / torch.sqrt(variance.view(shape) + self.eps)
        return x * self.weight.view(shape) + self.bias.view(shape)


def synchronised(model):
    """torch's own on GPUs, the class above on CPU ranks."""
    if torch.cuda.is_available():
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for name, layer in model.named_children():
        if isinstance(layer, nn.BatchNorm2d):
            setattr(model, name, SyncBatchNormOnCPU(layer.num_features))
    return model


dist.init_process_group()
rank = dist.get_rank()
batches = torch.randn(2, 8, 3, 4, 4, generator=torch.Generator().manual_seed(0))
batches[1] *= 5  # the batches of the ranks differ
for kind, change in (("BatchNorm", lambda model: model), ("SyncBatchNorm", synchronised)):
    model = change(nn.Sequential(nn.BatchNorm2d(3)))
    output = model(batches[rank])
    print(f"{kind}: rank {rank} normalises its batch to a deviation of {output.std().item():.2f}")

# the same as one BatchNorm over both batches
whole = nn.BatchNorm2d(3)(batches.flatten(0, 1))[8 * rank : 8 * rank + 8]
same = torch.allclose(output, whole, atol=1e-5)
print(f"rank {rank}: equal to one BatchNorm over the batches of all ranks: {same}")
dist.destroy_process_group()
