#!/usr/bin/env python3
"""Reads our kernels' machine code and prints what it is made of.

    scripts/kernel_report.py [--write docs/kernel_report.md] [--cutlass DIR] OBJECT...

For each kernel and architecture in the objects (ninja kernel_report passes those of the build):
registers, shared memory, spills, theoretical occupancy; and of the main loop (the innermost with the
most multiply-adds; for kernels without, the longest of the inner loops) its length, the share of FMA or
tensor instructions, and the widths of loads and stores. Beside ours stand CUTLASS's kernels of the same
tile, where its headers are found (pip install nvidia-cutlass, or --cutlass) and nvcc is there.

cuobjdump and nvdisasm come from the PATH, the toolkit, or the PyPI packages nvidia-cuda-cuobjdump and
nvidia-cuda-nvdisasm. Exits 1 where a kernel spills that ALLOWED does not list, where a main loop has less
than its LEAST share, or where a memory-bound kernel has fewer accesses of 16 bytes than WIDE says.
"""
import argparse
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ALLOWED = {}  # part of a kernel's name -> why it may spill
# (part of a kernel's name, least share of the large tile's main loop at sm_80)
LEAST = [("gemm_simt_kernel 128x128", 0.81), ("gemm_tensor_kernel 128x128", 0.39)]
# (kernel, loads and stores of 16 bytes that it has at least): all of a thread's where arrays are aligned
WIDE = [(r"elementwise_kernel<[48], .*Forward<.*unary_ops", 4, 4),
        (r"elementwise_kernel<[48], .*Backward<.*unary_ops::(?!Neg)", 8, 4),
        (r"elementwise_kernel<4, .*Binary<.*(Add|Mul|Div), float, float>", 8, 4),
        (r"elementwise_kernel<(4|8|16), .*Fill<", 0, 4), (r"random_vector_kernel", 0, 1),
        (r"optimizer_step_kernel<.*Adam, float>", 8, 6), (r"gradients_reduce_kernel<.*, float>", 4, 0)]
THEIRS = re.compile(r"_ZN(6thrust|3cub)")  # what Thrust brings along is not ours to report
FREE = ("image rows",)  # the weight gradient: pixels move through the depth, in four lines a thread

# Of a multiprocessor: threads, registers, shared memory, blocks (CUDA programming guide, compute
# capabilities); a block has 1 KiB of shared memory reserved.
CARDS = {"sm_80": (2048, 65536, 164 << 10, 32), "sm_90": (2048, 65536, 228 << 10, 32),
         "sm_86": (1536, 65536, 100 << 10, 16), "sm_89": (1536, 65536, 100 << 10, 24)}

DEFAULT_THREADS = 256  # taken for a kernel without launch bounds

Kernel = collections.namedtuple("Kernel", "name arch registers static threads code")


def find_tool(name, needed=True):
    places = [shutil.which(name), f"/usr/local/cuda/bin/{name}"]
    for folder in sys.path + [sysconfig.get_paths()["purelib"]]:
        places += glob.glob(os.path.join(folder, "nvidia", "*", "bin", name))
    for place in places:
        if place and os.path.exists(place):
            return place
    if not needed:
        return None
    sys.exit(f"kernel_report: {name} was not found: it comes with the CUDA toolkit, or pip install "
             f"nvidia-cuda-{name}")


def run(command):
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit(f"kernel_report: {' '.join(command[:2])} failed: {found.stderr.strip()[:500]}")
    return found.stdout


def demangle(names):
    short = [re.sub(r"^_Z\d+(cutlass_\w+?)N7cutlass.*", r"\1", name) for name in names]
    tool = shutil.which("c++filt")
    if not tool:
        sys.exit("kernel_report: c++filt was not found (package binutils)")
    found = subprocess.run([tool, "-p"], input="\n".join(short), capture_output=True, text=True, check=True)
    return dict(zip(names, found.stdout.split("\n")))


def read_objects(objects, default_arch=None):
    """All kernels of the objects, in order, each once for an architecture."""
    cuobjdump = find_tool("cuobjdump")
    os.environ["PATH"] = os.path.dirname(find_tool("nvdisasm")) + os.pathsep + os.environ.get("PATH", "")
    kernels, seen = [], set()
    for path in objects:
        if not subprocess.run([cuobjdump, "-lelf", path], capture_output=True, text=True, check=False).stdout:
            continue  # host code alone
        usage = read_usage(run([cuobjdump, "-res-usage", path]))
        threads = read_threads(run([cuobjdump, "-elf", path]))
        for key, code in read_code(run([cuobjdump, "-sass", path])).items():
            if key not in usage or key in seen or THEIRS.match(key[1]):
                continue
            seen.add(key)
            arch, name = key
            registers, static = usage[key]
            arch = arch or default_arch
            reserved = 1024 if arch >= "sm_90" else 0  # counted there as the kernel's
            kernels.append(Kernel(name, arch, registers, max(0, static - reserved), threads.get(key, DEFAULT_THREADS), code))
    return kernels


def read_usage(text):
    usage, arch, name = {}, None, None
    for line in text.split("\n"):
        if found := re.match(r"\s*arch = (\w+)", line):
            arch = found[1]
        elif found := re.match(r"\s*Function (\S+):", line):
            name = found[1]
        elif (found := re.match(r"\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", line)) and name:
            usage[arch, name] = int(found[1]), int(found[3])
    return usage


def read_threads(text):
    threads, arch, name, waits = {}, None, None, False
    for line in text.split("\n"):
        if found := re.match(r"\s*arch = (\w+)", line):
            arch = found[1]
        elif found := re.match(r"\s*\.nv\.info\.(\S+)", line):
            name = found[1]
        elif "EIATTR_MAX_THREADS" in line:
            waits = True
        elif waits and (found := re.match(r"\s*Value:\s*0x(\w+) 0x(\w+) 0x(\w+)", line)):
            threads[arch, name] = int(found[1], 16) * int(found[2], 16) * int(found[3], 16)
            waits = False
    return threads


def read_code(text):
    """{(arch, name): [(address, instruction)]}"""
    code, arch, lines = {}, None, None
    for line in text.split("\n"):
        if found := re.match(r"\s*arch = (\w+)", line):
            arch = found[1]
        elif found := re.match(r"\s*Function : (\S+)", line):
            lines = code.setdefault((arch, found[1]), [])
        elif (found := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)) and lines is not None:
            lines.append((int(found[1], 16), found[2]))
    return code


def opcode(instruction):
    if instruction.startswith("@!PT"):
        return "NEVER"  # what nvcc puts before LDGSTS: takes a slot, does nothing
    return re.sub(r"^@!?U?PT?\d*\s+", "", instruction).split()[0]


def is_multiply(op):
    return op.startswith(("FFMA", "HMMA"))


def main_loop(code):
    """The instructions of the main loop; none where there is no loop."""
    ops = [opcode(text) for _, text in code]
    places = {address: i for i, (address, _) in enumerate(code)}
    before = [0]  # multiplications among the first i
    for op in ops:
        before.append(before[-1] + is_multiply(op))
    best, best_key = [], (-1, 0)
    for end, (address, instruction) in enumerate(code):
        if not ops[end].startswith("BRA") or not (found := re.search(r"(0x[0-9a-f]+)", instruction)):
            continue
        begin = places.get(int(found[1], 16), end)
        if begin >= end:
            continue
        n, length = before[end + 1] - before[begin], end + 1 - begin
        key = (n, -length if n else length)
        if key > best_key:
            best, best_key = ops[begin:end + 1], key
    return best


def widths(ops):
    """Loads and stores by width in bits: 'LDS.128 x32'."""
    counts = collections.Counter()
    for op in ops:
        parts = op.split(".")
        if parts[0] not in ("LDG", "STG", "LDS", "STS", "LDGSTS", "LDSM", "LD", "ST"):
            continue
        if parts[0] == "LDSM":
            counts["LDSM.x4" if parts[-1] == "4" else op] += 1
            continue
        width = next((p for p in parts if p in ("128", "64", "U16", "S16", "U8", "S8")), "32")
        counts[f"{parts[0]}.{width}"] += 1
    return ", ".join(f"{name} x{n}" for name, n in sorted(counts.items()))


def dynamic_shared(name):
    """As SimtTile and TensorTile in kernels/device state it."""
    if found := re.search(r"SimtTile<(\d+), (\d+)>", name):
        rows, cols = int(found[1]), int(found[2])
        return 2 * 8 * (rows + cols + 8) * 4 + rows * 8
    if found := re.search(r"TensorTile<heddle::\w+, (\d+), (\d+)>", name):
        rows, cols = int(found[1]), int(found[2])
        return 3 * (rows + cols) * 64 + rows * 8
    return 0


def occupancy(kernel, shared):
    if kernel.arch not in CARDS:
        return ""
    threads, registers, memory, blocks = CARDS[kernel.arch]
    warps = -(-kernel.threads // 32)
    of_warp = -(-kernel.registers * 32 // 256) * 256
    fit = min(blocks, threads // (warps * 32), registers // (of_warp * warps), memory // (shared + 1024))
    return f"{100 * fit * warps * 32 // threads} %"


def short_name(name):
    """'gemm_tensor_kernel 128x128 bf16, matrix depth x matrix rows' for the main loops."""
    name = re.sub(r"^void ", "", name).replace("heddle::", "").replace("(anonymous namespace)::", "")
    base = name.split("<")[0].split("(")[0]
    tile = re.search(r"Tile<(?:(\w+), )?(\d+), (\d+)>", name)
    if not tile:
        return base
    dtype = {"BFloat16": " bf16", "Float16": " fp16"}.get(tile[1], " fp32")
    operands = re.findall(r"(Matrix|Image)Loader<\w+, TileMap<\w+, \(Along\)(\d)", name)
    sides = [f"{kind.lower()} {('depth', 'rows')[int(along)]}" for kind, along in operands]
    return f"{base} {tile[2]}x{tile[3]}{dtype}, {' x '.join(sides)}"


def compile_cutlass(folder, arch):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    places = [folder] if folder else glob.glob(
        os.path.join(sysconfig.get_paths()["purelib"], "cutlass_library", "source", "include"))
    places = [place for place in places if os.path.isdir(os.path.join(place, "cutlass"))]
    if not places or not os.path.exists(nvcc):
        return []
    with tempfile.TemporaryDirectory() as scratch:
        target = os.path.join(scratch, "cutlass.cubin")
        run([nvcc, "-std=c++17", "-O3", "-w", f"-arch={arch}", "-cubin", f"-I{places[0]}",
             os.path.join(ROOT, "scripts", "kernel_report_cutlass.cu"), "-o", target])
        return read_objects([target], arch)


def rows_of(kernels, names):
    for kernel in kernels:
        loop = main_loop(kernel.code)
        ops = [opcode(text) for _, text in kernel.code]
        n = sum(map(is_multiply, loop))
        shared = kernel.static + dynamic_shared(names[kernel.name])
        yield {"name": names[kernel.name], "kernel": short_name(names[kernel.name]), "arch": kernel.arch, "registers": kernel.registers,
               "shared": shared, "spills": sum(op.startswith(("LDL", "STL")) for op in ops),
               "occupancy": occupancy(kernel, shared), "loop": len(loop), "n": n,
               "share": n / len(loop) if loop else 0.0, "memory": widths(loop if is_product(kernel.name) else ops)}


def is_product(name):
    return re.search(r"gemm_(simt|tensor)_kernel|cutlass_", name) is not None


def merged(rows):
    """One row for all instances of a kernel: ranges, the sum of spills, the widest accesses."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["kernel"], row["arch"]].append(row)
    for (kernel, arch), group in groups.items():
        def span(key, of=group):
            values = sorted({row[key] for row in of}, key=lambda value: int(str(value).split(" ")[0] or 0))
            return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"
        yield {"kernel": f"{kernel} ({len(group)})", "arch": arch, "registers": span("registers"),
               "shared": span("shared"), "spills": sum(row["spills"] for row in group),
               "occupancy": span("occupancy"),
               "memory": ", ".join(filter(None, (widest(group, ("LDG", "LDGSTS", "LD")),
                                                 widest(group, ("STG", "ST")))))}


def widest(rows, kinds):
    found = [part.split(" ")[0] for row in rows for part in row["memory"].split(", ") if part.split(".")[0] in kinds]
    return max(found, key=lambda name: int(re.sub(r"\D", "", name.split(".")[1])), default="")


def table(rows, with_share):
    columns = ["kernel", "arch", "registers", "shared", "spills", "occupancy"]
    heads = ["Kernel", "Arch", "Registers", "Shared bytes", "Spills", "Occupancy"]
    if with_share:
        columns += ["loop", "n", "share"]
        heads += ["Loop", "FMA or tensor", "Share"]
    columns, heads = columns + ["memory"], heads + ["Loads and stores"]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        cells = [f"{row[c]:.3f}" if c == "share" else str(row[c]) for c in columns]
        yield "| " + " | ".join(cells) + " |"


HEADER = """# The kernels' machine code

Made by `ninja kernel_report` (`scripts/kernel_report.py --write`) from what nvcc {version} compiled: counts
of instructions, not times, and nothing was run on a GPU for them.

- *Spills* counts instructions on local memory.
- *Occupancy* is what registers, shared memory and threads allow (dynamic shared memory of the matrix
  products alone; 256 threads for kernels without launch bounds).
- *Loop* is the main loop's length in instructions, *share* the part of it that multiplies (FFMA, HMMA).
- An operand lies along its *depth* (k beside k in memory) or its *rows*; an *image* is a convolution's,
  unfolded on the way: along the depth in the forward pass and the data gradient, along the rows in the
  weight gradient.
"""


def report(rows, beside):
    by_loop = [row for row in rows if is_product(row["kernel"])]
    yield "\n## Matrix products and convolutions\n"
    yield from table(by_loop, True)
    if beside:
        yield "\n## CUTLASS's of the same tile\n"
        yield "128x128, 8 deep for float32, 32 deep in three stages for bfloat16; both operands along the depth.\n"
        yield from table(beside, True)
    yield "\n## The others\n"
    yield "In brackets how many instances (element types, widths) there are; the widest load and store, in bits.\n"
    yield from table(merged(row for row in rows if not is_product(row["kernel"])), False)


def len_of(memory, kind):
    """How many instructions of a kind widths() has counted."""
    found = re.search(re.escape(kind) + r" x(\d+)", memory)
    return int(found[1]) if found else 0


def offences(rows):
    for row in rows:
        where = f"{row['kernel']} ({row['arch']})"
        if row["spills"] and not any(part in row["kernel"] for part in ALLOWED):
            yield f"{where} spills: {row['spills']} instructions on local memory"
        for pattern, *least in WIDE:
            found = [len_of(row["memory"], f"{kind}.128") for kind in ("LDG", "STG")]
            if re.search(pattern, row["name"]) and any(n < m for n, m in zip(found, least)):
                yield (f"{row['name']} ({row['arch']}): {found[0]} loads and {found[1]} stores of 16 bytes, "
                       f"expected {least[0]} and {least[1]} or more")
        for part, least in LEAST:
            if part in row["kernel"] and row["arch"] == "sm_80" and row["share"] < least and not any(
                    free in row["kernel"] for free in FREE):
                yield f"{where}: share {row['share']:.3f} of the main loop, expected {least} or more"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("objects", nargs="+")
    parser.add_argument("--write", metavar="FILE", help="write the tables as Markdown")
    parser.add_argument("--cutlass", metavar="DIR", help="CUTLASS's include folder")
    options = parser.parse_args()
    kernels = read_objects(options.objects)
    if not kernels:
        sys.exit("kernel_report: no kernel in these objects")
    cutlass = compile_cutlass(options.cutlass, "sm_80")
    names = demangle([kernel.name for kernel in kernels + cutlass])
    rows = sorted(rows_of(kernels, names), key=lambda row: (row["kernel"], row["arch"]))
    beside = list(rows_of(cutlass, names))
    lines = "\n".join(report(rows, beside))
    print(lines)
    if not beside:
        print("\nCUTLASS's kernels are left out: no nvcc, or no headers (pip install nvidia-cutlass).")
    if options.write:
        version = re.search(r"\bV(\d\S+)", run([shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", "--version"]))
        with open(options.write, "w", encoding="utf-8") as file:
            file.write(HEADER.format(version=version[1]) + lines + "\n")
    found = list(offences(rows))
    for offence in found:
        print(offence)
    print(f"{len(rows)} kernels, {len(found)} offences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
