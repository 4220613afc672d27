"""A training step in torch: shapes, labels, dtypes, gradients, mixed precision, checkpoints."""

from __future__ import annotations

from nbdist.diagnosis.signatures.signature import Signature

SIGNATURES = (
    Signature(
        name="matmul-shapes",
        framework="torch",
        pattern=r"mat1 and mat2 shapes cannot be multiplied \((?P<a>\d+x\d+) and (?P<b>\d+x\d+)\)",
        cause="a linear layer expects another number of features: {a} times {b}",
        fix=(
            "make in_features of that layer the second number of its input's shape (print(x.shape) before it)"
        ),
        cause_zh="线性层期望的特征数不对：{a} 乘 {b}",
        fix_zh="让该层的 in_features 等于输入形状的第二个数（在它之前 print(x.shape)）",
    ),
    Signature(
        name="target-out-of-range",
        framework="torch",
        pattern=r"IndexError: Target (?P<label>-?\d+) is out of bounds",
        cause="the label {label} is not below the number of classes that the model puts out",
        fix="make the last layer as wide as there are classes, or count labels from 0",
        cause_zh="标签 {label} 超出了模型输出的类别数",
        fix_zh="让最后一层的宽度等于类别数，或让标签从 0 开始",
    ),
    Signature(
        name="index-out-of-range",
        framework="torch",
        pattern=(
            r"IndexError: index out of range in self"
            r"|index \d+ is out of bounds for dimension \d+ with size"
        ),
        cause="an index is larger than the embedding or the tensor is long",
        fix="make num_embeddings larger than the largest id, and check the ids (x.min(), x.max())",
        cause_zh="索引超过了 embedding 或张量的长度",
        fix_zh="让 num_embeddings 大于最大的 id，并检查 id（x.min()、x.max()）",
    ),
    Signature(
        name="shapes-differ",
        framework="torch",
        pattern=r"The size of tensor a \((?P<a>\d+)\) must match the size of tensor b \((?P<b>\d+)\)",
        cause="two tensors of different lengths ({a} and {b}) meet in one operation",
        fix="print both shapes before that line; a missing unsqueeze, transpose or last batch is common",
        cause_zh="两个长度不同的张量（{a} 和 {b}）参与同一个运算",
        fix_zh="在该行之前打印两个形状；常见原因是缺少 unsqueeze、transpose，或最后一个不满的批次",
    ),
    Signature(
        name="conv-channels",
        framework="torch",
        pattern=(
            r"Given groups=\d+, weight of size .+ to have"
            r" (?P<wanted>\d+) channels, but got (?P<got>\d+) channels"
        ),
        cause="the convolution expects {wanted} channels, the images have {got}",
        fix="set in_channels={got}, or convert the images (grey and colour); the order is N, C, H, W",
        cause_zh="卷积期望 {wanted} 个通道，图像有 {got} 个",
        fix_zh="设 in_channels={got}，或转换图像（灰度与彩色）；维度顺序是 N, C, H, W",
    ),
    Signature(
        name="label-dtype",
        framework="torch",
        pattern=(
            r"expected target dtype to be Long|expected scalar type Long but found"
            r"|Expected floating point type for target with class probabilities"
            r"|result type Float can't be cast to the desired output type Long"
        ),
        cause="the labels have the wrong dtype for this loss",
        fix="class numbers: target.long() of shape [N]; probabilities: target.float() of the output's shape",
        cause_zh="标签的 dtype 不符合这个损失函数",
        fix_zh="类别编号：target.long()，形状 [N]；概率：target.float()，形状与输出相同",
    ),
    Signature(
        name="batch-sizes-differ",
        framework="torch",
        pattern=r"Expected input batch_size \((?P<a>\d+)\) to match target batch_size \((?P<b>\d+)\)",
        cause="the model puts out {a} rows for {b} labels; a flatten or view most likely mixed up the batch",
        fix="keep the first dimension: x.flatten(1) instead of x.view(-1, n)",
        cause_zh="模型输出 {a} 行，而标签有 {b} 个；多半是 flatten 或 view 弄乱了批次维",
        fix_zh="保留第一维：用 x.flatten(1) 代替 x.view(-1, n)",
    ),
    Signature(
        name="view-size",
        framework="torch",
        pattern=r"shape '(?P<shape>\[[^']*\])' is invalid for input of size (?P<size>\d+)",
        cause="{size} values do not fit the shape {shape}",
        fix="use -1 for one dimension, or x.flatten(1); a smaller last batch also ends so (drop_last=True)",
        cause_zh="{size} 个数放不进形状 {shape}",
        fix_zh="把其中一维写成 -1，或用 x.flatten(1)；最后一个不满的批次也会这样（drop_last=True）",
    ),
    Signature(
        name="view-strides",
        framework="torch",
        pattern=r"view size is not compatible with input tensor's size and stride",
        cause="view() needs memory in one piece, which a transposed or sliced tensor is not",
        fix="write .reshape(…) instead of .view(…)",
        cause_zh="view() 需要连续内存，而转置或切片后的张量不连续",
        fix_zh="用 .reshape(…) 代替 .view(…)",
    ),
    Signature(
        name="batchnorm-one-sample",
        framework="torch",
        pattern=r"Expected more than 1 value per channel when training",
        cause="BatchNorm got a batch of one sample, most likely the rest at the end of an epoch on this rank",
        fix="DataLoader(…, drop_last=True), or a batch size that leaves no rest of 1",
        cause_zh="BatchNorm 得到只有一个样本的批次，多半是本进程每轮末尾的余数",
        fix_zh="DataLoader(…, drop_last=True)，或换一个不会余 1 的批次大小",
    ),
    Signature(
        name="devices-differ",
        framework="torch",
        pattern=(
            r"Expected all tensors to be on the same device"
            r"|is not on the expected device"
            r"|Input type \(torch\.[\w.]+\) and weight type \(torch\.[\w.]+\) should be the same"
        ),
        cause="model and data are on different devices",
        fix="move both to the rank's device: model.to(device), x = x.to(device), y = y.to(device)",
        cause_zh="模型和数据不在同一个设备上",
        fix_zh="都移到本进程的设备：model.to(device)，x = x.to(device)，y = y.to(device)",
    ),
    Signature(
        name="dtypes-differ",
        framework="torch",
        pattern=(
            r"mat1 and mat2 must have the same dtype"
            r"|expected m1 and m2 to have the same dtype"
            r"|Input type \((?:c10::)?\w+\) and bias type \((?:c10::)?\w+\) should be the same"
            r"|expected scalar type (?:Float|Half|BFloat16|Double) but found"
        ),
        cause=(
            "data and weights have different dtypes (numpy's floats are double; half precision is set twice)"
        ),
        fix="x = x.float(), or let torch.autocast choose and call neither .half() nor .bfloat16()",
        cause_zh="数据和权重的 dtype 不同（numpy 的浮点数是 double；或半精度设置了两次）",
        fix_zh="x = x.float()；或交给 torch.autocast，不再调用 .half()、.bfloat16()",
    ),
    Signature(
        name="half-not-supported",
        framework="torch",
        pattern=r"not implemented for 'Half'|Low precision dtypes not supported\. Got Half",
        cause="this operation does not exist in half precision on this device",
        fix="compute it in float32 (x.float()); on CPU use bfloat16 or no mixed precision",
        cause_zh="这个运算在该设备上不支持半精度",
        fix_zh="用 float32 计算（x.float()）；CPU 上用 bfloat16 或不用混合精度",
    ),
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
        cause_zh="检查点不完整：还在写，或多个 rank 同时写了它",
        fix_zh="只在 rank 0 上用临时文件名保存，再 os.replace()；其他 rank 加载之前 dist.barrier()",
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
