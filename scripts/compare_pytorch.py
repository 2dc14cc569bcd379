#!/usr/bin/env python3
"""Heddle beside PyTorch on the CPU: whole training steps, and the loader alone.

Called by scripts/compare_pytorch.sh. Every side is a process of its own; each round runs all of them
in turn. Printed are medians over rounds, ratios (above 1: Heddle is the faster), the spread (highest
less lowest over the median), page faults a steady step and the peak of resident memory.
"""
import argparse
import glob
import json
import os
import resource
import statistics
import subprocess
import sys
import time

CLASSES = 10
LAYOUTS = ("default", "channels_last")
WORKERS = (0, 2, 4)
TRANSFORMS = ("normalize", "crop_flip")
# jemalloc at its best: it keeps what it has. Its defaults, and what PyTorch's tuning guide gives,
# return large blocks to the system at each step, which makes PyTorch slower than without it.
JEMALLOC = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1"
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--what", choices=("all", "step", "loader"), default="all")
    parser.add_argument("--model", choices=("all", "simple_cnn", "resnet18"), default="all")
    parser.add_argument("--batch-size", type=int, nargs="+", default=[64], help="of the steps")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5, help="at least 5")
    parser.add_argument("--steps", type=int, default=0, help="a round; 0: 30, or 6 of resnet18")
    parser.add_argument("--data", default="", help="folder of CIFAR-10's binary files; without it"
                        " Heddle's loader makes pictures up and PyTorch's reads random ones")
    parser.add_argument("--json", default="", help="file for the figures")
    parser.add_argument("--check-flags", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", choices=("step", "loader"), help=argparse.SUPPRESS)
    parser.add_argument("--layout", choices=LAYOUTS, default="default", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 5 or options.threads < 1 or min(options.batch_size) < 1:
        parser.error("--rounds must be at least 5, --threads and --batch-size at least 1")
    if options.data and not os.path.isdir(options.data):
        parser.error(f"--data: {options.data} is no folder")
    if options.json and not os.access(os.path.dirname(options.json) or ".", os.W_OK):
        parser.error(f"--json: {options.json} cannot be written")
    return options


# PyTorch's side ------------------------------------------------------------------------------------


def simple_cnn():
    from torch import nn
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(),
                         nn.Linear(65536, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def resnet18():
    import torchvision
    from torch import nn
    model = torchvision.models.resnet18(num_classes=CLASSES)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def peak_resident_bytes():
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def step_worker(options):
    import torch
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(17)
    dtype = getattr(torch, options.dtype)
    layout = torch.channels_last if options.layout == "channels_last" else torch.contiguous_format
    model = {"simple_cnn": simple_cnn, "resnet18": resnet18}[options.model]()
    model = model.to(dtype).to(memory_format=layout)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    batch = options.batch_size[0]
    images = torch.randn(batch, 3, 32, 32).to(dtype).to(memory_format=layout)
    labels = torch.arange(batch) % CLASSES

    def step():
        adam.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        adam.step()
        return loss.item()

    for _ in range(3):
        step()
    seconds = []
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(options.steps):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    print(json.dumps({"median_seconds": statistics.median(seconds),
                      "minor_page_faults_per_step": faults / options.steps,
                      "peak_memory_bytes": peak_resident_bytes(), "torch": torch.__version__}))


class Pictures:
    """What torchvision.datasets.CIFAR10 does, over the binary files or random pictures."""

    def __init__(self, folder, transform):
        import numpy
        if folder:
            records = numpy.concatenate([
                numpy.fromfile(name, numpy.uint8).reshape(-1, 3073)
                for name in sorted(glob.glob(os.path.join(folder, "data_batch_*.bin")))])
        else:
            records = numpy.random.default_rng(17).integers(0, 256, (50000, 3073), numpy.uint8)
            records[:, 0] %= CLASSES
        self.labels = records[:, 0].tolist()
        self.images = numpy.ascontiguousarray(
            records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        self.transform = transform

    def __len__(self):
        return min(20000, len(self.labels))  # enough to time, and an epoch stays short

    def __getitem__(self, index):
        from PIL import Image
        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


def loader_worker(options):
    import torch
    from torchvision import transforms
    results = []
    for name in TRANSFORMS:
        steps = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
        if name == "crop_flip":
            steps = [transforms.RandomCrop(32, 4), transforms.RandomHorizontalFlip()] + steps
        pictures = Pictures(options.data, transforms.Compose(steps))
        for workers in WORKERS:
            loader = torch.utils.data.DataLoader(
                pictures, batch_size=64, shuffle=True, num_workers=workers,
                persistent_workers=workers > 0)
            for count, _ in enumerate(loader):  # starts the workers
                if workers == 0 and count > 20:
                    break
            begin = time.perf_counter()
            for _ in loader:
                pass
            rate = len(pictures) / (time.perf_counter() - begin)
            results.append({"transform": name, "workers": workers, "images_per_second": rate})
            del loader
    print(json.dumps({"results": results, "torch": torch.__version__}))


# The comparison ------------------------------------------------------------------------------------


def find_jemalloc():
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib",
                   "/usr/lib64", "/usr/local/lib"):
        name = os.path.join(folder, "libjemalloc.so.2")
        if os.path.exists(name):
            return name
    return ""


def run(command, preload=""):
    environment = dict(os.environ)
    if preload:
        environment["LD_PRELOAD"] = preload
        environment.setdefault("MALLOC_CONF", JEMALLOC)
    result = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True, text=True)
    return json.loads(result.stdout)


def summary(values):
    median = statistics.median(values)
    return median, (max(values) - min(values)) / median


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))
    print(flush=True)


def run_in_rounds(sides, rounds):
    results = {name: [] for name in sides}
    names = list(sides)
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            results[name].append(sides[name]())
    return results


def compare_steps(options, model, batch):
    steps = options.steps or (30 if model == "simple_cnn" else 6)
    own = [os.path.join(options.programs, "bench_step"), "--side", "heddle", "--model", model,
           "--batch-size", str(batch), "--dtype", options.dtype, "--threads", str(options.threads),
           "--rounds", str(max(5, steps)), "--json", "-"]
    torch = [sys.executable, os.path.abspath(__file__), "--programs", "-", "--worker", "step",
             "--model", model, "--batch-size", str(batch), "--dtype", options.dtype, "--threads",
             str(options.threads), "--steps", str(steps)]
    sides = {"heddle": lambda: run(own)["steps"][0]["sides"][0]}
    jemalloc = find_jemalloc()
    for layout in LAYOUTS:
        sides[f"PyTorch {layout}"] = lambda c=torch + ["--layout", layout]: run(c)
        if jemalloc:
            sides[f"PyTorch {layout}, jemalloc"] = (
                lambda c=torch + ["--layout", layout]: run(c, jemalloc))
    if not jemalloc:
        print("libjemalloc.so.2 (Debian: libjemalloc2) is not here: left out", file=sys.stderr)
    results = run_in_rounds(sides, options.rounds)

    figures, rows = [], [[f"{model} batch {batch} {options.dtype}", "ms", "heddle is x faster",
                          "spread", "page faults", "peak MiB"]]
    for name, rounds in results.items():
        seconds = [r["median_seconds"] for r in rounds]
        median, spread = summary(seconds)
        ratio = statistics.median(other / own["median_seconds"]
                                  for other, own in zip(seconds, results["heddle"]))
        faults = statistics.median(r["minor_page_faults_per_step"] for r in rounds)
        peak = statistics.median(r["peak_memory_bytes"] for r in rounds)
        rows.append([f"  {name}", f"{median * 1e3:.2f}", f"{ratio:.2f}", f"{spread:.0%}",
                     f"{faults:.0f}", f"{peak / 2**20:.0f}"])
        figures.append({"side": name, "median_seconds": median, "spread": spread,
                        "heddle_speedup": ratio, "samples_seconds": seconds,
                        "minor_page_faults_per_step": faults, "peak_memory_bytes": peak})
    print_table(rows)
    return {"model": model, "batch": batch, "dtype": options.dtype, "sides": figures}


def best_rate(results, transform, way="plain"):
    """Images a second with the fastest number of workers."""
    return max(r["images_per_second"] for r in results["results"]
               if r["transform"] == transform and r.get("way", "plain") == way)


def compare_loaders(options):
    data = ["--data", options.data] if options.data else []
    own = [os.path.join(options.programs, "bench_loader"), "--rounds", "1", "--ways", "plain,uint8",
           "--seconds", "0.3", "--json", "-", *data]
    torch = [sys.executable, os.path.abspath(__file__), "--programs", "-", "--worker", "loader",
             "--threads", str(options.threads), *data]
    results = run_in_rounds({"heddle": lambda: run(own), "PyTorch": lambda: run(torch)},
                            options.rounds)
    figures, rows = [], [["loader, best number of workers", "images/s", "spread",
                          "x PyTorch", "x plain"]]
    for transform in TRANSFORMS:
        rates = {"PyTorch": [best_rate(r, transform) for r in results["PyTorch"]],
                 "heddle, plain": [best_rate(r, transform) for r in results["heddle"]],
                 "heddle, staged": [best_rate(r, transform, "uint8") for r in results["heddle"]]}

        def ratio(name, other):
            return statistics.median(a / b for a, b in zip(rates[name], rates[other]))

        for name, values in rates.items():
            median, spread = summary(values)
            rows.append([f"  {transform}, {name}", f"{median:.0f}", f"{spread:.0%}",
                         f"{ratio(name, 'PyTorch'):.1f}", f"{ratio(name, 'heddle, plain'):.2f}"])
        figures.append({"transform": transform, "best_images_per_second": rates,
                        "heddle_speedup": ratio("heddle, plain", "PyTorch"),
                        "staged_speedup": ratio("heddle, staged", "PyTorch"),
                        "staged_over_plain": ratio("heddle, staged", "heddle, plain")})
    print_table(rows)
    print("staged: the host's part, pictures' bytes and draws into slots; no copy to a device\n")
    return {"best": figures, "rounds": results}


def main():
    options = parse()
    if options.check_flags:
        return None
    if options.worker:
        return step_worker(options) if options.worker == "step" else loader_worker(options)
    figures = {"rounds": options.rounds, "threads": options.threads, "steps": []}
    models = ("simple_cnn", "resnet18") if options.model == "all" else (options.model,)
    if options.what != "loader":
        for model in models:
            for batch in options.batch_size:
                figures["steps"].append(compare_steps(options, model, batch))
    if options.what != "step":
        figures["loader"] = compare_loaders(options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)
    return None


if __name__ == "__main__":
    main()
