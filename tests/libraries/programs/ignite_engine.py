# line: -n 2
# needs: ignite
# first: Epoch\[1\] Iter\[4\] loss \d
"""ignite's engines: the group is made by idist.Parallel from what the launcher has set."""

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events


def training(local_rank):
    model = idist.auto_model(torch.nn.Linear(4, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))

    def update(_, batch):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    engine = Engine(update)

    @engine.on(Events.ITERATION_COMPLETED(every=2))
    @idist.one_rank_only()
    def report():
        state = engine.state
        print(f"Epoch[{state.epoch}] Iter[{state.iteration}] loss {state.output:.4f}")

    engine.run([torch.randn(8, 4) for _ in range(4)], max_epochs=1)


with idist.Parallel(backend="gloo") as parallel:
    parallel.run(training)
