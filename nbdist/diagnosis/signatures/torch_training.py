"""A training step in torch: mixed precision, checkpoints, gradients."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Signature

SIGNATURES = (
    Signature(
        name="scaler-no-gradients",
        framework="torch",
        pattern=r"No inf checks were recorded for this optimizer",
        cause="scaler.step() ran before any backward(): no parameter of the optimizer has a gradient",
        fix=(
            "scaler.scale(loss).backward() first; give the optimizer the parameters of the model that "
            "is trained"
        ),
        cause_zh="scaler.step() 之前没有 backward()：优化器的参数都没有梯度",
        fix_zh="先执行 scaler.scale(loss).backward()；确认优化器拿到的是正在训练的模型的参数",
    ),
    Signature(
        name="scaler-unscale-twice",
        framework="torch",
        pattern=r"unscale_\(\) has already been called on this optimizer since the last update",
        cause="scaler.unscale_() ran twice before scaler.update()",
        fix="call unscale_() once a step, and scaler.update() after each scaler.step()",
        cause_zh="scaler.update() 之前 unscale_() 调用了两次",
        fix_zh="每步只调用一次 unscale_()，每次 scaler.step() 之后调用 scaler.update()",
    ),
    Signature(
        name="scaler-half-weights",
        framework="torch",
        pattern=r"Attempting to unscale FP16 gradients",
        cause="the model itself was made half precision; GradScaler wants weights in float32",
        fix="drop model.half(): torch.autocast chooses the precision of each operation",
        cause_zh="模型本身被转成了半精度，而 GradScaler 需要 float32 权重",
        fix_zh="去掉 model.half()：torch.autocast 会为每个运算选择精度",
    ),
    Signature(
        name="checkpoint-module-prefix",
        framework="torch",
        pattern=r'key\(s\) in state_dict: "module\.',
        cause=(
            "one of checkpoint and model is wrapped in DDP and the other is not: the names differ by "
            "'module.'"
        ),
        fix="save model.module.state_dict(), and load it before the model is wrapped",
        cause_zh="检查点和模型一个被 DDP 包装、一个没有：名字差了 'module.'",
        fix_zh="保存 model.module.state_dict()，并在包装模型之前加载",
    ),
    Signature(
        name="checkpoint-shapes",
        framework="torch",
        pattern=r"size mismatch for (?P<name>[\w.]+): copying a param with shape",
        cause="{name} has another shape in the checkpoint: it was saved from another model",
        fix="build the model with the numbers it was saved with, or leave that layer out of what is loaded",
        cause_zh="{name} 在检查点里的形状不同：保存时用的是另一个模型",
        fix_zh="用保存时的参数构建模型，或加载时去掉这一层",
    ),
    Signature(
        name="checkpoint-keys",
        framework="torch",
        pattern=r'Error\(s\) in loading state_dict for \w+:\s+(?:Missing|Unexpected) key(?![\s\S]*"module\.)',
        cause="checkpoint and model do not have the same layers",
        fix="load into the model it was saved from; strict=False skips what does not fit",
        cause_zh="检查点和模型的层不一致",
        fix_zh="加载到保存时的那个模型；strict=False 会跳过对不上的部分",
    ),
    Signature(
        name="checkpoint-weights-only",
        framework="torch",
        pattern=r"Weights only load failed",
        cause="the file holds more than tensors, and torch.load() takes only tensors since 2.6",
        fix="save model.state_dict(); for a file that you trust: torch.load(path, weights_only=False)",
        cause_zh="文件里不只有张量，而 torch.load() 从 2.6 起默认只接受张量",
        fix_zh="保存 model.state_dict()；文件可信时用 torch.load(path, weights_only=False)",
    ),
    Signature(
        name="checkpoint-corrupt",
        framework="torch",
        pattern=(
            r"PytorchStreamReader failed|unexpected EOF, expected \d+ more bytes"
            r"|UnpicklingError: invalid load key|EOFError: Ran out of input"
        ),
        cause="the checkpoint is incomplete: it is still being written, or several ranks wrote it at once",
        fix=(
            "save on rank 0 alone under another name, then os.replace() it; dist.barrier() before the "
            "others load"
        ),
        cause_zh="检查点不完整：还在写，或多个进程同时写了它",
        fix_zh="只在进程 0 上用临时文件名保存，再 os.replace()；其他进程加载之前 dist.barrier()",
    ),
    Signature(
        name="checkpoint-device",
        framework="torch",
        pattern=r"Attempting to deserialize object on (?:a )?CUDA device",
        cause="the checkpoint was saved from a GPU that this rank does not have",
        fix="torch.load(path, map_location='cpu'), then model.to(device)",
        cause_zh="检查点保存自本进程没有的 GPU",
        fix_zh="torch.load(path, map_location='cpu')，然后 model.to(device)",
    ),
    Signature(
        name="optimizer-state",
        framework="torch",
        pattern=(
            r"loaded state dict (?:has a different number of parameter groups"
            r"|contains a parameter group that doesn't match)"
        ),
        cause="the optimizer's state was saved for a model with other parameters",
        fix="make the optimizer from the same parameters in the same groups, or do not load its state",
        cause_zh="优化器状态是为另一组参数保存的",
        fix_zh="用同样的参数和分组创建优化器，或不加载它的状态",
    ),
    Signature(
        name="gradient-in-place",
        framework="torch",
        pattern=(
            r"one of the variables needed for gradient computation"
            r" has been modified by an inplace operation"
        ),
        cause=(
            "a tensor that backward() still needs was changed in place (+=, x[…] =, relu_, or a second "
            "forward in DDP)"
        ),
        fix=(
            "write x = x + 1 instead of x += 1; with DDP pass broadcast_buffers=False when forward runs twice"
        ),
        cause_zh="backward() 还需要的张量被原地修改了（+=、x[…] =、relu_，或 DDP 里第二次前向）",
        fix_zh="把 x += 1 写成 x = x + 1；DDP 中前向执行两次时传入 broadcast_buffers=False",
    ),
    Signature(
        name="backward-twice",
        framework="torch",
        pattern=r"Trying to backward through the graph a second time",
        cause=(
            "backward() ran a second time over the same graph, often a loss or hidden state kept from "
            "the last step"
        ),
        fix="add up losses before one backward(); detach() what goes over to the next step",
        cause_zh="对同一个计算图第二次执行 backward()，常见于保留了上一步的 loss 或隐藏状态",
        fix_zh="先把 loss 相加再 backward() 一次；带到下一步的张量用 detach()",
    ),
    Signature(
        name="no-gradient",
        framework="torch",
        pattern=r"element \d+ of tensors does not require grad and does not have a grad_fn",
        cause="the loss does not depend on any parameter that is trained",
        fix="look for torch.no_grad(), .detach(), .item() or frozen parameters between model and loss",
        cause_zh="loss 不依赖任何需要训练的参数",
        fix_zh="检查模型和 loss 之间的 torch.no_grad()、.detach()、.item() 或冻结的参数",
    ),
    Signature(
        name="loss-not-scalar",
        framework="torch",
        pattern=r"grad can be implicitly created only for scalar outputs",
        cause="backward() was called on a tensor with more than one value",
        fix="loss.mean().backward(), or a loss with reduction='mean'",
        cause_zh="对含有多个数的张量调用了 backward()",
        fix_zh="用 loss.mean().backward()，或让损失函数 reduction='mean'",
    ),
    Signature(
        name="leaf-in-place",
        framework="torch",
        pattern=r"a leaf Variable that requires grad is being used in an in-place operation",
        cause="a parameter is changed in place while gradients are recorded",
        fix="do it inside: with torch.no_grad():",
        cause_zh="在记录梯度时原地修改了参数",
        fix_zh="放到 with torch.no_grad(): 里面做",
    ),
    Signature(
        name="optimizer-empty",
        framework="torch",
        pattern=r"optimizer got an empty parameter list",
        cause="the optimizer was given no parameters: the model has none, or a generator was used up",
        fix="pass model.parameters() anew; keep layers in nn.ModuleList, not in a plain list",
        cause_zh="优化器没有得到参数：模型没有参数，或生成器已经用完",
        fix_zh="重新传入 model.parameters()；多个层放在 nn.ModuleList 里，不要用普通列表",
    ),
    Signature(
        name="numpy-of-gradient",
        framework="torch",
        pattern=(
            r"Can't call numpy\(\) on Tensor that requires grad"
            r"|can't convert cuda:\d+ device type tensor to numpy"
        ),
        cause="numpy gets a tensor that is part of the graph or lies on a GPU",
        fix="x.detach().cpu().numpy(); for a number: x.item()",
        cause_zh="numpy 得到的张量还在计算图里，或在 GPU 上",
        fix_zh="x.detach().cpu().numpy()；只要一个数时用 x.item()",
    ),
)
