"""The table of what is said of a program's training, its data, and calls that are no more."""

from __future__ import annotations

from nbdist.diagnosis.checks.finding import Rule

RULES = (
    Rule(
        name="removed",
        what="uses {said}, which {package} {version} does not have",
        instead="write  {instead}",
        what_zh="用到 {said}，{package} {version} 里没有它",
        instead_zh="写  {instead}",
    ),
    Rule(
        name="fluid",
        what="uses paddle.fluid, which paddle {version} does not have (removed in 2.5)",
        instead="{instead}",
        what_zh="用到 paddle.fluid，paddle {version} 里没有它（2.5 起移除）",
        instead_zh="{instead_zh}",
    ),
    Rule(
        name="apex",
        what="uses apex, which is not installed, and which torch has replaced",
        instead="{instead}",
        what_zh="用到 apex，它没有安装，torch 已内置其功能",
        instead_zh="{instead_zh}",
    ),
    Rule(
        name="module-not-installed",
        what="imports {module}, which is not installed for {python}",
        instead="%pip install it, or put your own file beside the notebook",
        what_zh="导入了 {module}，它没有装在 {python} 里",
        instead_zh="用 %pip install 安装；如果是自己的文件，放在笔记本旁边",
    ),
    Rule(
        name="legacy-data-parallel",
        what="calls {said}() on a model that is not parallel: only paddle.DataParallel has it",
        instead="leave it out",
        what_zh="对没有并行化的模型调用 {said}()：只有 paddle.DataParallel 才有，而且已不再需要",
        instead_zh="去掉它",
    ),
    Rule(
        name="fleet-with-one-rank",
        what="calls fleet.distributed_model, which fails in paddle 3 with one rank",
        instead="run with  -n 2 , or write  if fleet.worker_num() > 1:",
        what_zh="调用 fleet.distributed_model，paddle 3 在只有一个进程时会失败",
        instead_zh="用  -n 2  运行，或写  if fleet.worker_num() > 1:",
    ),
    Rule(
        name="no-group",
        what="uses {said}, and nothing starts the process group",
        instead="write  {fix}  above it",
        what_zh="用到 {said}，但没有初始化进程组",
        instead_zh="在它前面写  {fix}",
    ),
    Rule(
        name="group-on-one-rank",
        what="starts the process group only in some ranks ({condition}): they wait for the others",
        instead="let every rank call {said}",
        what_zh="只在部分进程里初始化进程组（{condition}）：它们会一直等其他进程",
        instead_zh="让每个进程都调用 {said}",
    ),
    Rule(
        name="collective-on-one-rank",
        what="calls {said} only in some ranks ({condition}): it waits for all of them",
        instead="call it in every rank, and keep only the printing or saving under the  if",
        what_zh="只在部分进程里调用 {said}（{condition}）：它会等待所有进程",
        instead_zh="让每个进程都调用它，只把打印或保存放在  if  之下",
    ),
    Rule(
        name="data-not-divided",
        what="shuffles the whole data set in every rank: all {count} ranks train on the same data",
        instead="write  {fix}",
        what_zh="在每个进程里都打乱整个数据集：{count} 个进程训练的是同样的数据",
        instead_zh="改用  {fix}",
    ),
    Rule(
        name="shuffle-and-sampler",
        what="gives DataLoader both shuffle=True and a sampler, which it refuses",
        instead="leave shuffle out, and write  DistributedSampler(dataset, shuffle=True)",
        what_zh="同时给 DataLoader 传了 shuffle=True 和 sampler，它不接受",
        instead_zh="去掉 shuffle，写  DistributedSampler(dataset, shuffle=True)",
    ),
    Rule(
        name="input",
        what="calls input(): ranks have no keyboard, and it raises EOFError",
        instead='write the value into the cell, or pass it with  --args "…"',
        what_zh="调用了 input()：进程没有键盘，会抛出 EOFError",
        instead_zh='把值写进单元，或用  --args "…"  传入',
    ),
)
