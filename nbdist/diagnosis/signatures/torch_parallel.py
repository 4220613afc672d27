"""torch's wrappers around a model: DDP, FSDP, DTensor."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Signature

SIGNATURES = (
    Signature(
        name="ddp-device-ids-on-cpu",
        framework="torch",
        pattern=r"DistributedDataParallel device_ids and output_device arguments only work with",
        cause="DistributedDataParallel got device_ids, but the model's parameters are not on that GPU",
        fix="on CPU ranks leave device_ids out; on GPUs move the model there first: model.to(local_rank)",
        cause_zh="DistributedDataParallel 传入了 device_ids，但模型参数不在该 GPU 上",
        fix_zh="CPU 上去掉 device_ids；GPU 上先把模型移过去：model.to(local_rank)",
    ),
    Signature(
        name="ddp-nothing-to-train",
        framework="torch",
        pattern=r"DistributedDataParallel is not needed when a module doesn't have any parameter",
        cause="the model has no parameter that requires a gradient",
        fix="wrap only what is trained; unfreeze parameters before DistributedDataParallel(model)",
        cause_zh="模型里没有需要梯度的参数",
        fix_zh="只包装要训练的模型；在 DistributedDataParallel(model) 之前解冻参数",
    ),
    Signature(
        name="ddp-unused-parameters",
        framework="torch",
        pattern=r"Expected to have finished reduction in the prior iteration before starting a new one",
        cause="some parameters took no part in the loss, so DDP still waits for their gradients",
        fix="use every output of forward in the loss, or pass find_unused_parameters=True",
        cause_zh="有参数没有参与 loss 的计算，DDP 还在等它们的梯度",
        fix_zh="让 forward 的全部输出都参与 loss，或传入 find_unused_parameters=True",
    ),
    Signature(
        name="ddp-ready-twice",
        framework="torch",
        pattern=r"Expected to mark a variable ready only once",
        cause="a parameter got its gradient twice in one step: used in two forward passes, or checkpointed",
        fix=(
            "call the wrapped model once a step; with checkpoint() pass use_reentrant=False, or "
            "static_graph=True"
        ),
        cause_zh="同一步里某个参数两次得到梯度：被多次前向使用，或用了 checkpoint",
        fix_zh="每步只调用一次包装后的模型；checkpoint() 传入 use_reentrant=False，或设 static_graph=True",
    ),
    Signature(
        name="ddp-static-graph",
        framework="torch",
        pattern=r"Your training graph has changed in this iteration",
        cause="static_graph=True was promised, but the step used other parameters than the first one",
        fix="drop static_graph=True, or let every step use the same parts of the model",
        cause_zh="声明了 static_graph=True，但这一步用到的参数和第一步不同",
        fix_zh="去掉 static_graph=True，或让每一步都使用模型的同样部分",
    ),
    Signature(
        name="ddp-models-differ",
        framework="torch",
        pattern=(
            r"DDP expects same model across all ranks"
            r"|appears not to match (?:sizes|strides) of the same param in process"
        ),
        cause="the ranks built different models: other layers or other sizes",
        fix=(
            "build the model from the same numbers on every rank; nothing of it may depend on the rank's data"
        ),
        cause_zh="各进程构建的模型不同：层数或大小不一致",
        fix_zh="每个进程用相同的数值构建模型，不能依赖各自的数据",
    ),
    Signature(
        name="ddp-attribute",
        framework="torch",
        pattern=r"'DistributedDataParallel' object has no attribute '(?P<attribute>\w+)'",
        cause="the model is wrapped: {attribute} belongs to the model inside",
        fix="write model.module.{attribute}",
        cause_zh="模型已被包装：{attribute} 属于里面的模型",
        fix_zh="写成 model.module.{attribute}",
    ),
    Signature(
        name="uneven-inputs",
        framework="torch",
        pattern=r"Detected at least one rank that exhausted inputs|Rank \d+ exhausted all inputs",
        cause="a rank ran out of batches before the others",
        fix="give every rank the same number of batches: DistributedSampler, or drop_last=True",
        cause_zh="有进程先用完了批次",
        fix_zh="让每个进程的批次数相同：用 DistributedSampler，或设 drop_last=True",
    ),
    Signature(
        name="fsdp-needs-gpu",
        framework="torch",
        pattern=r"FSDP needs a non-CPU accelerator device",
        cause="FullyShardedDataParallel looks for a GPU, and this rank has none",
        fix="on CPU pass device_id=torch.device('cpu'), or use fully_shard(); on GPUs start with --gpus",
        cause_zh="FullyShardedDataParallel 需要 GPU，而本进程没有",
        fix_zh="CPU 上传入 device_id=torch.device('cpu')，或改用 fully_shard()；GPU 上用 --gpus 启动",
    ),
    Signature(
        name="fsdp-frozen-parameters",
        framework="torch",
        pattern=r"Must flatten tensors with uniform `?(?:requires_grad|dtype)`?",
        cause="FSDP flattens frozen and trained parameters (or two dtypes) into one tensor",
        fix="pass use_orig_params=True, or wrap the frozen part by itself",
        cause_zh="FSDP 把冻结和训练的参数（或两种 dtype）合并成一个张量",
        fix_zh="传入 use_orig_params=True，或把冻结的部分单独包装",
    ),
    Signature(
        name="dtensor-mixed",
        framework="torch",
        pattern=r"got mixed torch\.Tensor and DTensor",
        cause="one operand is spread over the ranks (DTensor), the other is an ordinary tensor",
        fix="distribute_tensor() the other one too, or take the local part: x.to_local()",
        cause_zh="一个操作数分布在各进程上（DTensor），另一个是普通张量",
        fix_zh="对另一个也用 distribute_tensor()，或取本地部分：x.to_local()",
    ),
)
