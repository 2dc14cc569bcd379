#!/usr/bin/env python3
"""Makes the reference values of tests/nn/golden_test.cpp with PyTorch.

    python3 tests/nn/golden/make_golden.py     writes simple_cnn.json, resnet18.json and
                                               pytorch.safetensors beside itself

Weights, pictures and labels are formulas that both sides compute (see `values`), so that the files
hold results alone. Everything is computed in float64. Needs torch, numpy and safetensors.
"""
import json
import pathlib

import numpy
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).parent


def values(count, salt, bound):
    """count float32 numbers in [-bound, bound): a hash of their index and the salt."""
    x = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761) + numpy.uint32(salt * 97 + 1)
    x ^= x >> numpy.uint32(16)
    x *= numpy.uint32(0x85EBCA6B)
    x ^= x >> numpy.uint32(13)
    unit = (x >> numpy.uint32(8)).astype(numpy.float32) * numpy.float32(2.0**-23) - numpy.float32(1)
    return unit * numpy.float32(bound)


def fill(model):
    """Parameter number i gets values(..., salt i, 1/sqrt(fan in)); batch-norm's weights that plus 1."""
    for salt, (name, parameter) in enumerate(model.named_parameters()):
        fan_in = parameter[0].numel() if parameter.dim() > 1 else 64
        filled = values(parameter.numel(), salt, fan_in**-0.5)
        if parameter.dim() == 1 and name.endswith("weight"):
            filled = filled + numpy.float32(1)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(filled).reshape(parameter.shape))


def pictures(batch):
    flat = values(batch * 3 * 32 * 32, 1000, 1.0)
    return torch.from_numpy(flat).reshape(batch, 3, 32, 32).double()


def labels(batch):
    return torch.arange(batch) * 3 % 10


class SimpleCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(65536, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class BasicBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision's resnet18 with the stem for 32x32 pictures."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        sizes = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        for i, (inside, outside, stride) in enumerate(sizes, 1):
            stage = nn.Sequential(BasicBlock(inside, outside, stride), BasicBlock(outside, outside, 1))
            setattr(self, f"layer{i}", stage)
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def digest(tensor):
    """Norm, sum, and eight elements at even distances in row-major order."""
    flat = tensor.detach().double().reshape(-1)
    step = max(1, flat.numel() // 8)
    return {"norm": flat.norm().item(), "sum": flat.sum().item(), "elements": flat[::step][:8].tolist()}


def train(model, optimizer, batch, steps):
    model.double()
    fill(model)
    x, y = pictures(batch), labels(batch)
    result = {"batch": batch, "losses": []}
    for step in range(steps):
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        if step == 0:
            result["logits"] = logits.detach().reshape(-1).tolist()
            result["gradients"] = {n: digest(p.grad) for n, p in model.named_parameters()}
        optimizer.step()
        result["losses"].append(loss.item())
    result["state"] = {n: digest(t) for n, t in model.state_dict().items()}
    model.eval()
    result["eval_logits"] = model(x).detach().reshape(-1).tolist()
    return result


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        return self.fc(F.relu(self.bn(self.conv(x))).flatten(1))


def tiny_file():
    """A file of Python's safetensors, and what its model answers, in the file's metadata."""
    torch.manual_seed(0)
    model = Tiny()
    x = torch.from_numpy(values(2 * 3 * 6 * 6, 1000, 1.0)).reshape(2, 3, 6, 6)
    model(x)  # moves the running statistics
    model.eval()
    logits = model(x).detach().reshape(-1).tolist()
    safetensors.torch.save_file(
        model.state_dict(), HERE / "pytorch.safetensors", {"format": "pt", "logits": json.dumps(logits)})


def main():
    model = SimpleCnn()
    result = train(model, torch.optim.Adam(model.parameters(), lr=1e-3), 4, 3)
    (HERE / "simple_cnn.json").write_text(json.dumps(result, indent=1) + "\n")
    model = ResNet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True)
    result = train(model, optimizer, 4, 2)
    (HERE / "resnet18.json").write_text(json.dumps(result, indent=1) + "\n")
    tiny_file()


if __name__ == "__main__":
    main()
