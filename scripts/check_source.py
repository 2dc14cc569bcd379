#!/usr/bin/env python3
"""Checks what a compiler does not: the direction of includes, lengths, and what must not be in a file.

    scripts/check_source.py            prints offences and exits 1 where there is one
    scripts/check_source.py --write    writes heddle.h, which includes all public headers, first

Folders may include, beside themselves, those that LAYERS names. Lengths over the soft limits are
listed; those over the hard limits fail, unless LONG gives a reason.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAYERS = {
    "core": (),
    "kernels": ("core",),
    "nn": ("core", "kernels"),
    "data": ("core", "kernels"),
    "parallel": ("core", "kernels", "nn", "data"),
    "apps": ("core", "kernels", "nn", "data", "parallel", "heddle.h"),
    "tests": ("core", "kernels", "nn", "data", "parallel", "apps", "heddle.h"),
    "heddle.h": ("core", "kernels", "nn", "data", "parallel"),
}
# Headers that heddle.h leaves out: what ops and kernels are made of, not what users call.
INTERNAL = re.compile(r"kernels/(?!provider\.h|host/parallel_for\.h)|nn/ops/|core/(split|sync|tensor_impl|flavour|cuda_check|cuda_memory|cuda_devices|context_cuda|profiler)\.h|data/batch\.h|parallel/(exchange_runner|links_cuda|flat|lanes|reducer|replicas|shard_meeting|shard_plan|table_exchange)\.h")
SOFT = {"header": 250, "source": 400, "function": 40}
HARD = {"file": 600, "function": 120}
LONG = {}  # path, or path:function line text -> reason
CODE = (".h", ".cpp", ".cu", ".cuh")
TEXT = CODE + (".py", ".sh", ".md", ".cmake", ".txt", ".json", ".in", "run")
# Absolute paths of one machine, and marks of work left over.
FORBIDDEN = [
    (re.compile(r"(^|[\s\"'(=:])/(home|root|work|farm|tmp)/"), "absolute path of one machine"),
    (re.compile(r"\b(TO" "DO|FIX" "ME|X" "XX)\b"), "work left over"),
    # Catch2 takes such a name for a flag when ctest asks for the test by name, and runs nothing.
    (re.compile(r'TEST_CASE\("-'), "name of a test that begins like a flag"),
]


def project_files(endings):
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in (".git", "build", "runs", ".cache", "__pycache__")
                      or folder == os.path.join(ROOT, "tests")]
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def without_text(code):
    """The code with comments and the contents of literals blanked, line breaks kept."""
    pattern = re.compile(
        r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), code)


def check_includes(path, code):
    layer = path.split("/")[0]
    if layer not in LAYERS:
        return
    for number, line in enumerate(code.split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
        if not found:
            continue
        quote, name = found.groups()
        if quote == '"' and not name.startswith("heddle/"):
            yield f'{path}:{number}: include "heddle/..." from the root instead of "{name}"'
        if name.startswith("heddle/"):
            target = name.split("/")[1]
            if target != layer and target not in LAYERS[layer]:
                yield f"{path}:{number}: {layer} must not include {name}"


def functions(code):
    """(first line, length, heading) of each function body, a body being no namespace or class."""
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.M)
    scopes, start = [], 0
    for place, char in enumerate(code):
        if char == "{":
            heading = code[start:place]
            is_scope = re.search(r"\b(namespace|class|struct|union|enum|extern)\b", heading) and not (
                heading.rstrip().endswith(")"))
            is_body = not is_scope and ")" in heading and all(kind == "scope" for kind, _, _ in scopes)
            scopes.append(("scope" if is_scope else "body" if is_body else "other",
                           place - len(heading.lstrip()), heading))
        elif char == "}" and scopes:
            kind, begin, heading = scopes.pop()
            if kind == "body":
                first = code.count("\n", 0, begin) + 1
                yield first, code.count("\n", begin, place) + 1, " ".join(heading.split())
        if char in "{};":
            start = place + 1


def check_lengths(path, code, notes):
    n_lines = code.count("\n")
    kind = "header" if path.endswith((".h", ".cuh")) else "source"
    if n_lines > HARD["file"] and path not in LONG:
        yield f"{path}: {n_lines} lines, more than {HARD['file']}"
    elif n_lines > SOFT[kind]:
        notes.append(f"{path}: {n_lines} lines (aim: {SOFT[kind]})")
    if path.startswith("tests/"):
        return
    for line, length, heading in functions(without_text(code)):
        where = f"{path}:{line}: {length} lines: {heading[:70]}"
        if length > HARD["function"] and f"{path}:{heading}" not in LONG:
            yield f"{where}, more than {HARD['function']}"
        elif length > SOFT["function"]:
            notes.append(f"{where} (aim: {SOFT['function']})")


def check_text(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, what in FORBIDDEN:
            if pattern.search(line):
                yield f"{path}:{number}: {what}: {line.strip()[:80]}"


def umbrella():
    """heddle.h as it should be."""
    headers = [path for path in project_files((".h",))
               if path.split("/")[0] in LAYERS["heddle.h"] and not INTERNAL.match(path)]
    lines = "".join(f'#include "heddle/{path}"\n' for path in sorted(headers))
    return "#pragma once\n\n// All of Heddle's public interface; scripts/check_source.py --write makes this file.\n" + lines


def main():
    offences, notes, n_files = [], [], 0
    if sys.argv[1:] not in ([], ["--write"]):
        print(f"check_source.py: unknown argument {sys.argv[1]}; usage: check_source.py [--write]", file=sys.stderr)
        return 2
    if sys.argv[1:] == ["--write"]:
        with open(os.path.join(ROOT, "heddle.h"), "w", encoding="utf-8") as file:
            file.write(umbrella())
    if read("heddle.h") != umbrella():
        offences.append("heddle.h: public headers are missing; scripts/check_source.py --write adds them")
    for path in project_files(TEXT):
        text = read(path)
        n_files += 1
        offences += check_text(path, text)
        if path.endswith(CODE):
            offences += check_includes(path, text)
            offences += check_lengths(path, text, notes)
    for note in notes:
        print("long:", note)
    for offence in offences:
        print(offence)
    print(f"{n_files} files, {len(notes)} long, {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
