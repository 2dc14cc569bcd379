#!/usr/bin/env python3
"""Test accuracy of SimpleCnn in PyTorch, to compare train_cifar's with.

    pytorch_accuracy.py DIR [--epochs 3] [--seeds 0 1 2] [--batch-size 64] [--lr 1e-3]

DIR holds CIFAR-10's binary files. Needs torch and numpy. Same model, optimizer (Adam), batches and
normalisation as `train_cifar --model simple_cnn`; prints one accuracy a seed and their mean.
"""
import argparse
import pathlib
import statistics

import numpy
import torch
from torch import nn

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)


class SimpleCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(65536, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def read(folder, names):
    rows = numpy.concatenate(
        [numpy.fromfile(folder / name, numpy.uint8).reshape(-1, 3073) for name in names])
    images = torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy())
    return images, torch.from_numpy(rows[:, 0].astype(numpy.int64))


def normalise(images):
    mean = torch.tensor(MEAN).view(1, 3, 1, 1)
    std = torch.tensor(STD).view(1, 3, 1, 1)
    return ((images.float() / 255 - mean) / std).contiguous(memory_format=torch.channels_last)


def accuracy(model, images, labels):
    model.eval()
    right = 0
    with torch.no_grad():
        for begin in range(0, len(labels), 500):
            logits = model(normalise(images[begin:begin + 500]))
            right += (logits.argmax(1) == labels[begin:begin + 500]).sum().item()
    return 100 * right / len(labels)


def train(seed, train_set, test_set, options):
    torch.manual_seed(seed)
    model = SimpleCnn().to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(model.parameters(), lr=options.lr, fused=True)
    images, labels = train_set
    for _ in range(options.epochs):
        model.train()
        order = torch.randperm(len(labels))
        for begin in range(0, len(order), options.batch_size):
            index = order[begin:begin + options.batch_size]
            adam.zero_grad()
            nn.functional.cross_entropy(model(normalise(images[index])), labels[index]).backward()
            adam.step()
    return accuracy(model, *test_set)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    options = parser.parse_args()
    train_set = read(options.folder, [f"data_batch_{i}.bin" for i in range(1, 6)])
    test_set = read(options.folder, ["test_batch.bin"])
    results = []
    for seed in options.seeds:
        results.append(train(seed, train_set, test_set, options))
        print(f"seed {seed}: {results[-1]:.2f}%", flush=True)
    print(f"mean of {len(results)}: {statistics.mean(results):.2f}%")


if __name__ == "__main__":
    main()
