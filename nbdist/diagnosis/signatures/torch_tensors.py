"""Tensors that do not go together in torch: shapes, labels, dtypes, devices."""

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
)
