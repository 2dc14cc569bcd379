#!/usr/bin/env python3
"""device_symbols.py --device OBJECT... --host OBJECT...: fails where a kernel of a .cu object calls a
weak function that a host object defines as well. The linker keeps one of the two: if it is the host's,
which has no hooks, the kernel's accesses in it are checked no more.
"""
import argparse
import re
import subprocess
import sys

HEADER = re.compile(r"^[0-9a-f]+ <(.+)>:$")
CALL = re.compile(r"R_(?:X86_64_PLT32|X86_64_PC32|AARCH64_CALL26|AARCH64_JUMP26)\s+([^\s+-]+)")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def weak_symbols(objects):
    lines = run("nm", "--defined-only", *objects)
    fields = [line.split() for line in lines]
    return {f[2] for f in fields if len(f) == 3 and f[1] in ("W", "V", "u")}


def calls_of(device_object):
    """From each function of the object to the symbols that its code names."""
    calls, function = {}, None
    for line in run("objdump", "-dr", "--no-show-raw-insn", device_object):
        header = HEADER.match(line)
        if header:
            function = header.group(1)
            calls.setdefault(function, set())
        elif function is not None and (call := CALL.search(line)):
            calls[function].add(call.group(1))
    return calls


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True,
                          text=True).stdout
    return dict(zip(names, text.splitlines()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", nargs="+", required=True)
    parser.add_argument("--host", nargs="+", required=True)
    options = parser.parse_args()
    shared = weak_symbols(options.device) & weak_symbols(options.host)
    n_kernels, bad = 0, []
    for device_object in options.device:
        calls = calls_of(device_object)
        names = demangled(sorted(calls))
        for kernel in (f for f in calls if re.search(r"_kernel\b", names[f])):
            n_kernels += 1
            reached, left = set(), [kernel]
            while left:
                function = left.pop()
                if function in reached:
                    continue
                reached.add(function)
                left.extend(calls.get(function, ()))
            bad += [(names[kernel], symbol) for symbol in sorted(reached & shared)]
    text = demangled(sorted({symbol for _, symbol in bad}))
    for kernel, symbol in bad:
        print(f"{kernel}\n  calls {text[symbol]}, which host objects have too")
    print(f"{n_kernels} kernels, {len(shared)} symbols that device and host objects share, "
          f"{len(bad)} called by kernels")
    return 1 if bad or n_kernels == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
