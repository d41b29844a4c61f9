"""The networks of compare_cpu_peers.py and compare_pytorch_model.py: by name, of torchvision or timm, with the weights of a
seed, as ONNX, and that in eight bits."""

import os
import warnings

NETWORKS = ("alexnet vgg16 resnet18 resnet50 mobilenet_v2 mnasnet1_0 mobilenet_v3_large efficientnet_b0 resnext50_32x4d "
            "densenet121 googlenet squeezenet1_1 shufflenet_v2_x1_0 convnext_tiny deeplabv3_resnet50 vit_b_16").split()


def build(name):
    """The PyTorch module, with the weights of a seed; batch norms that are not the identity."""
    import torch
    import torchvision

    class Out(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)["out"]

    torch.manual_seed(1)
    if name.startswith("timm:"):
        import timm
        model = timm.create_model(name[5:], pretrained=False)
    elif hasattr(torchvision.models.segmentation, name):
        model = Out(getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None))
    else:
        auxiliary = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
        model = getattr(torchvision.models, name)(weights=None, **auxiliary)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
        if isinstance(module, torch.nn.Linear):  # some heads begin as zeros, and would answer nothing
            torch.nn.init.trunc_normal_(module.weight, std=0.02)
    return model.eval()


def export(name, path, module=None):
    """Writes the network, or `module`, which is it with other weights."""
    import torch
    warnings.simplefilter("ignore")
    torch.onnx.export(module or build(name), (torch.zeros(1, 3, 224, 224),), path + ".part", input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, opset_version=17, dynamo=False)
    os.replace(path + ".part", path)


def quantize(path, out, pictures=4):
    """Writes an exported network in eight bits as ONNX Runtime makes it: QDQ, u8 values, s8 weights for each channel,
    calibrated on random pictures."""
    import numpy as np
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Pictures(CalibrationDataReader):
        def __init__(self):
            numbers = np.random.default_rng(2)
            self.left = [numbers.standard_normal((1, 3, 224, 224), dtype=np.float32) for _ in range(pictures)]

        def get_next(self):
            return {"x": self.left.pop()} if self.left else None

    quant_pre_process(path, out + ".prepared", skip_symbolic_shape=True)
    quantize_static(out + ".prepared", out + ".part", Pictures(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    os.remove(out + ".prepared")
    os.replace(out + ".part", out)
