"""The networks of compare_cpu_peers.py and compare_pytorch_model.py: by name, of torchvision or timm, with the weights of a
seed, as ONNX, and that in eight bits."""

import os
import warnings
import zlib
from pathlib import Path

NETWORKS = ("alexnet vgg16 resnet18 resnet50 mobilenet_v2 mnasnet1_0 mobilenet_v3_large efficientnet_b0 resnext50_32x4d "
            "densenet121 googlenet squeezenet1_1 shufflenet_v2_x1_0 convnext_tiny deeplabv3_resnet50 vit_b_16").split()
# Of many kinds, for compare_pytorch_model.py --arch many: what was seldom timed first, as a run may be cut.
MANY = tuple(
    "timm:mobileone_s1 timm:repvgg_a2 timm:repvit_m1 timm:fastvit_t8 timm:poolformer_s12 timm:convnextv2_atto timm:cspdarknet53 "
    "timm:edgenext_small swin_t inception_v3 timm:ese_vovnet19b_dw timm:nf_resnet50 efficientnet_v2_s resnet50 vgg16 mobilenet_v2 "
    "efficientnet_b0 mobilenet_v3_large vit_b_16 convnext_tiny alexnet timm:ghostnetv2_100 timm:mixnet_s timm:dla34 "
    "timm:hrnet_w18_small timm:tf_efficientnetv2_b0 timm:res2net50_26w_4s timm:mobilenetv4_conv_small timm:deit_tiny_patch16_224 "
    "wide_resnet50_2 regnet_x_400mf shufflenet_v2_x0_5 resnet101 mobilenet_v3_small mnasnet0_5 resnet18 resnext50_32x4d mnasnet1_0 "
    "regnet_y_1_6gf densenet121 googlenet squeezenet1_1 shufflenet_v2_x1_0 deeplabv3_resnet50".split())


MOST_PARAMETERS = 150_000_000  # of a torchvision network that is raced


def others():
    """The networks of coverage.py that MANY has not, families mixed, always in the same order. coverage.py keeps the list of
    timm's networks in build/coverage, which takes minutes to make."""
    import coverage_models
    import torchvision
    cache = Path(__file__).parents[2] / "build/coverage/timm_files.json"
    found = set()
    for case in coverage_models.cases(("classification", "segmentation", "timm"), cache):
        group, name = case.split("/", 1)
        if group == "timm":
            found.add("timm:" + name.split(":")[1])
        elif torchvision.models.get_model_weights(name).DEFAULT.meta["num_params"] < MOST_PARAMETERS:
            found.add(name)
    return sorted(found - set(MANY), key=lambda name: zlib.crc32(name.encode()))


def image_shape(name):
    """Of one image: what timm says that a network is for, or torchvision's."""
    if name.startswith("timm:"):
        import timm
        return timm.models.get_pretrained_cfg(name[5:]).input_size
    return (3, *[299 if name == "inception_v3" else 224] * 2)


def build(name):
    """The PyTorch module, with the weights of a seed; batch norms have statistics of what they see, or deep networks overflow in f16."""
    import coverage_models
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
        if isinstance(module, torch.nn.Linear):  # some heads begin as zeros, and would answer nothing
            torch.nn.init.trunc_normal_(module.weight, std=0.02)
    coverage_models.calibrate(model.eval(), torch.randn(2, *image_shape(name)))
    return model


def export(name, path, module=None, batch=None):
    """Writes the network, or `module`, which is it with other weights; for any batch, or for that one."""
    import torch
    warnings.simplefilter("ignore")
    axes = {} if batch else {"dynamic_axes": {"x": {0: "N"}, "y": {0: "N"}}}
    torch.onnx.export(module or build(name), (torch.zeros(batch or 1, *image_shape(name)),), path + ".part", input_names=["x"],
                      output_names=["y"], opset_version=17, dynamo=False, **axes)
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
