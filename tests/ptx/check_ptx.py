#!/usr/bin/env python3
"""Compares what nvcc makes of kernels/device's PTX helpers with a table from the PTX ISA manual.

    tests/ptx/check_ptx.py NVCC INCLUDE_DIR

For each helper: the instruction with shape and types, each operand in its place (found by where its
register was loaded from or is stored to), and, where cuobjdump is at hand, the machine instruction.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "scripts"))
import kernel_report  # noqa: E402

# PTX ISA 8, "Warp-level matrix instructions: mma", "ldmatrix", "Data movement: cp.async".
# name: (instruction, operands as the manual orders them, machine instruction)
# Operands: l<bytes> a register loaded from that offset, s<bytes> one stored to it, addresses as a.
MMA = ("{s0,s4,s8,s12}", "{l16,l20,l24,l28}", "{l32,l36}", "{l0,l4,l8,l12}")
TABLE = {
    "mma_float16": [("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", MMA, r"HMMA\.16816\.F32 ")],
    "mma_bfloat16": [("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", MMA, r"HMMA\.16816\.F32\.BF16 ")],
    "ldmatrix": [("ldmatrix.sync.aligned.m8n8.x4.shared.b16", ("{s0,s4,s8,s12}", "[a]"), r"LDSM\.16\.M88\.4 ")],
    "ldmatrix_transposed": [("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", ("{s0,s4,s8,s12}", "[a]"),
                             r"LDSM\.16\.MT88\.4 ")],
    "cp_async": [("cp.async.cg.shared.global", ("[shared]", "[global]", "16", "size"),
                  r"LDGSTS\.E\.BYPASS(\.LTC128B)?\.128(\.ZFILL)? "),
                 ("cp.async.commit_group", (), r"LDGDEPBAR"),
                 ("cp.async.wait_group", ("1",), r"DEPBAR\.LE SB0, 0x1"),
                 ("cp.async.wait_group", ("0",), r"DEPBAR\.LE SB0, 0x0")],
}


def bodies(ptx):
    """{kernel: its statements}"""
    found = re.findall(r"\.entry (\w+)\((.*?)\)[^{]*\n\{(.*?)\n\}", ptx, re.S)
    return {name: [re.sub(r"\s+", " ", line).strip() for line in re.sub(r"//[^\n]*", "", body).split(";")]
            for name, _, body in found}


def places(statements):
    """{register: l<offset> or s<offset>} by the statements that load and store it."""
    loaded, stored = {}, {}
    for text in statements:
        if not (found := re.match(r"(ld|st)\.global\S* (.*)$", text)):
            continue
        address = re.search(r"\[%\w+(?:\+(\d+))?\]", found[2])
        first = int(address[1] or 0)
        for i, register in enumerate(re.findall(r"%[a-z]+\d+", found[2].replace(address[0], ""))):
            (loaded if found[1] == "ld" else stored)[register] = first + 4 * i
    # Copies between register classes (mov.b32) hand a place on.
    for text in statements:
        if found := re.match(r"mov\.\w+ (%\w+), (%\w+)$", text):
            if found[2] in loaded:
                loaded[found[1]] = loaded[found[2]]
            if found[1] in stored:
                stored[found[2]] = stored[found[1]]
    return loaded, stored


def operands(text):
    """Splits at commas outside of braces."""
    return [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", text)]


def matches(found, expected, loaded, stored):
    if expected in ("[a]", "[shared]", "[global]"):
        return re.fullmatch(r"\[%\w+\]", found) is not None
    if expected == "size":
        return re.fullmatch(r"%\w+", found) is not None
    if not expected.startswith("{"):
        return found == expected
    registers = re.findall(r"%\w+", found)
    wanted = expected.strip("{}").split(",")
    kinds = {"l": loaded, "s": stored}
    return len(registers) == len(wanted) and all(
        kinds[want[0]].get(register) == int(want[1:]) for register, want in zip(registers, wanted))


def check_ptx(ptx):
    kernels = bodies(ptx)
    for kernel, rows in TABLE.items():
        statements = kernels.get(kernel)
        if statements is None:
            yield f"{kernel}: not in the PTX"
            continue
        loaded, stored = places(statements)
        at = 0
        for instruction, wanted, _ in rows:
            place = next((i for i in range(at, len(statements))
                          if statements[i].split(" ")[0].split(";")[0] == instruction), None)
            if place is None:
                yield f"{kernel}: no {instruction} (in this order)"
                continue
            at = place + 1
            found = operands(statements[place][len(instruction):])
            if len(found) != len(wanted) or not all(
                    matches(have, want, loaded, stored) for have, want in zip(found, wanted)):
                yield f"{kernel}: {statements[place]}, expected operands {', '.join(wanted)}"


def check_machine_code(cubin):
    code = {kernel.name: "\n".join(text for _, text in kernel.code)
            for kernel in kernel_report.read_objects([cubin], "sm_80")}
    for kernel, rows in TABLE.items():
        for _, _, pattern in rows:
            if not re.search(pattern, code.get(kernel, "")):
                yield f"{kernel}: no {pattern} in the machine code"


def main():
    nvcc, include = sys.argv[1:]
    flags = ["-std=c++20", "-O3", "-arch=sm_80", "--expt-relaxed-constexpr", "-DFMT_USE_CONSTEXPR=1", f"-I{include}"]
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = os.path.join(folder, "helpers.ptx"), os.path.join(folder, "helpers.cubin")
        for kind, target in (("-ptx", ptx), ("-cubin", cubin)):
            subprocess.run([nvcc, *flags, kind, os.path.join(HERE, "helpers.cu"), "-o", target], check=True)
        with open(ptx, encoding="utf-8") as file:
            found = list(check_ptx(file.read()))
        if kernel_report.find_tool("cuobjdump", needed=False):
            found += check_machine_code(cubin)
        else:
            print("machine code not checked: no cuobjdump (pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")
    for line in found:
        print(line)
    print(f"{len(TABLE)} helpers, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
