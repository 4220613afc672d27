# expect: rank any, line 16, signature gradient-in-place
# A GAN whose generator learns through the discriminator as it was before the discriminator's step.
import torch
import torch.distributed as dist

dist.init_process_group()
generator = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 8))
judge = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
)
of_generator, of_judge = (torch.optim.SGD(net.parameters(), 0.1) for net in (generator, judge))
made = generator(torch.randn(2, 4))
verdict = judge(made)
verdict.mean().backward(retain_graph=True)
of_judge.step()
(-verdict.mean()).backward()
of_generator.step()
