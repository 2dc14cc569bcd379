#!/usr/bin/env python3
"""Breaks kernels and host sources that queue work on devices on purpose, one mutation of
scripts/mutations.toml at a time, in a copy of the tree, and runs the tests named beside it under
cudasim: each mutation must make them fail.

    scripts/mutate.py                    all of them
    scripts/mutate.py --only gemm        those whose file or title has this word
    scripts/mutate.py --list

The copy lies in build/mutate. The sources that a mutation names under `compile` (its own file, where it
names none) are compiled again, and linked before the objects of build/release, or of another folder,
for which HEDDLE_CUDA=OFF is enough. Of that folder only the test programs in question are built.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build/mutate"
TREE = WORK / "tree"
PROGRAMS = {"kernels_sim_tests": "tests/kernels/kernels_sim_tests",
            "ops_sim_tests": "tests/ops_sim_tests",
            "core_sim_tests": "tests/core_sim_tests",
            "data_sim_tests": "tests/data_sim_tests",
            "parallel_sim_tests": "tests/parallel_sim_tests"}
DEVICES = {"parallel_sim_tests": "8"}  # virtual ones; 2 for the others
TIME_LIMIT = 300  # seconds: a mutated loop may not end


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **options)


def copy_tree():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    shutil.rmtree(WORK, ignore_errors=True)
    for name in listed:
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, TREE / name)
    (WORK / "include").mkdir()
    (WORK / "include/heddle").symlink_to(TREE)


class Base:
    """The build whose objects are linked, but for those that a mutation touches."""

    def __init__(self, folder, programs):
        self.folder = folder
        built = run(["cmake", "--build", str(folder), "--target", *programs])
        if built.returncode != 0:
            sys.exit(built.stdout[-4000:] + f"mutate: {folder} does not build")
        commands = json.loads((folder / "compile_commands.json").read_text())
        # Where there is nvcc, a source is compiled for a GPU too; heddle_cuda_host is for both.
        self.compile = {str(Path(c["file"]).relative_to(ROOT)): c["command"] for c in commands
                        if "/cudasim/include" in c["command"] or "heddle_cuda_host" in c["command"]}
        self.link = {program: self.link_command(PROGRAMS[program]) for program in programs}

    def link_command(self, path):
        commands = run(["ninja", "-C", str(self.folder), "-t", "commands", "-s", path]).stdout
        return next(part for part in commands.splitlines()[-1].split(" && ")
                    if f"-o {path}" in part)

    def compile_mutated(self, source):
        """Compiles a source of the copy, with little optimisation: None and its object, or what failed."""
        target = WORK / (Path(source).name + ".o")
        command = self.compile[source].replace(f"-I{self.folder}/include", f"-I{WORK}/include")
        command = command.replace(f" -c {ROOT}/{source}", f" -O1 -w -c {TREE}/{source}")
        command = re.sub(r" -o \S+", f" -o {target}", command)
        done = run(["bash", "-c", command], cwd=self.folder)
        return (done.stdout, None) if done.returncode != 0 else (None, target)

    def link_with(self, objects, program):
        """The mutated objects come first, so that their originals are not taken from the library."""
        mutated = WORK / "mutated_tests"
        command = self.link[program].replace(
            f"-o {PROGRAMS[program]}", f"-o {mutated} " + " ".join(map(str, objects)))
        done = run(["bash", "-c", command], cwd=self.folder)
        return (done.stdout, None) if done.returncode != 0 else (None, mutated)


def test(program, name, selection):
    """`program` is that test program, or the mutated one in its place."""
    try:
        done = run([str(program), selection], timeout=TIME_LIMIT,
                   env=os.environ | {"CUDASIM_DEVICES": DEVICES.get(name, "2")})
        if "No test" in done.stdout:  # a selection that has none proves nothing
            sys.exit(f"mutate: {selection} selects no test of {program}")
        return done
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(late.cmd, 124, f"no end after {TIME_LIMIT} s", "")


def how_caught(done):
    """One line on what the tests said."""
    if done.returncode == 124:
        return done.stdout
    lines = done.stdout.splitlines()
    findings = sorted({line.split(" in ")[0].removeprefix("cudasim: ") for line in lines
                       if line.startswith("cudasim: ") and " in " in line and " on device " in line})
    failed = next((line for line in lines if line.startswith("test cases:")), "")
    said = [f"finding: {', '.join(findings)}"] if findings else []
    said += [" ".join(failed.split())] if "failed" in failed else []
    return "; ".join(said) or f"exit code {done.returncode}"


def edits(mutation):
    """Its own text and those of `also`."""
    return [(edit["old"], edit["new"]) for edit in [mutation, *mutation.get("also", [])]]


def fits(mutation):
    text = (ROOT / mutation["file"]).read_text()
    return all(text.count(old) == 1 for old, _ in edits(mutation))


def build_mutated(base, mutation):
    objects = []
    for source in mutation.get("compile", [mutation["file"]]):
        problem, target = base.compile_mutated(source)
        if problem is not None:
            return problem, None
        objects.append(target)
    return base.link_with(objects, mutation["program"])


def try_mutation(base, mutation):
    """None where it was caught, else what went wrong; prints a line."""
    path = TREE / mutation["file"]
    original = path.read_text()
    begin = time.time()
    mutated = original
    for old, new in edits(mutation):
        mutated = mutated.replace(old, new)
    path.write_text(mutated)
    problem, program = build_mutated(base, mutation)
    path.write_text(original)
    if problem is not None:
        return "does not compile:\n" + problem[-2000:]
    done = test(program, mutation["program"], mutation["tests"])
    if done.returncode == 0:
        return "SURVIVED: the tests passed"
    print(f"caught     {mutation['file']}: {mutation['title']}\n"
          f"           {how_caught(done)} ({time.time() - begin:.0f} s)", flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="a word of the file's name or the title")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release",
                        help="the build folder whose other objects are linked (build/release)")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    with open(ROOT / "scripts/mutations.toml", "rb") as file:
        mutations = tomllib.load(file)["mutation"]
    chosen = [m for m in mutations if options.only in m["file"] + " " + m["title"]]
    for m in chosen:
        m.setdefault("program", "kernels_sim_tests")
    if options.list:
        for m in chosen:
            print(f"{m['file']}: {m['title']} [{m['tests']}]")
        return 0
    unfit = [m for m in chosen if not fits(m)]
    for m in unfit:
        print(f"UNFIT     {m['file']}: {m['title']}: its text must occur exactly once")

    copy_tree()
    base = Base(options.build.resolve(), sorted({m["program"] for m in chosen}))
    for program, tests in sorted({(m["program"], m["tests"]) for m in chosen}):
        done = test(base.folder / PROGRAMS[program], program, tests)
        if done.returncode != 0:
            sys.exit(done.stdout[-4000:] + f"mutate: {tests} fails without a mutation")

    failures = len(unfit)
    for m in chosen:
        if m in unfit:
            continue
        problem = try_mutation(base, m)
        if problem is not None:
            failures += 1
            print(f"NOT CAUGHT {m['file']}: {m['title']} [{m['tests']}]\n{problem}", flush=True)
    print(f"{len(chosen) - failures} of {len(chosen)} mutations caught")
    return 1 if failures or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
