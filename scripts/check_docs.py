#!/usr/bin/env python3
"""Checks the documentation against the code.

    scripts/check_docs.py [--compiler c++ --include build/release/include]

In README.md, CONTRIBUTING.md, CHANGELOG.md and docs/: links lead to files that exist; a path of this
project in backticks exists; and with --compiler, C++ blocks compile. A block opens with

    ```cpp         statements: compiled as the body of a function that has <heddle/heddle.h>
    ```cpp file    declarations: compiled at namespace scope
    ```cpp from PATH  a part of that file, line for line but for indentation
    ```cpp sketch  not compiled

and what the blocks of a page declare is seen by the later blocks of that page (statements of all
blocks share one body). A comment `<!-- given: CODE -->` before a block declares what it takes for granted.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("core", "kernels", "nn", "data", "parallel", "apps", "tests", "scripts", "docs", "cmake")


def pages():
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        if os.path.exists(os.path.join(ROOT, name)):
            yield name
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def without_blocks(text):
    return re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", "", m.group()), text, flags=re.S | re.M)


def line_of(text, place):
    return text.count("\n", 0, place) + 1


def check_links(page, text):
    folder = os.path.dirname(os.path.join(ROOT, page))
    for found in re.finditer(r"\]\(([^)#\s]+)(#[^)]*)?\)|<img[^>]* src=\"([^\"]+)\"", text):
        target = found.group(1) or found.group(3)
        if not re.match(r"[a-z]+:", target) and not os.path.exists(os.path.join(folder, target)):
            yield f"{page}:{line_of(text, found.start())}: link to {target}, which does not exist"


def check_paths(page, text):
    for found in re.finditer(r"`((?:%s)/[\w./*{},-]*)`" % "|".join(FOLDERS), text):
        path = found.group(1).rstrip("/")
        if re.search(r"[*{]", path):
            continue  # a pattern for the reader
        if not os.path.exists(os.path.join(ROOT, path)):
            yield f"{page}:{line_of(text, found.start())}: `{path}` does not exist"


def check_quotes(page, text):
    for found in re.finditer(r"^```cpp from (\S+)\n(.*?)^```", text, re.S | re.M):
        path, quoted = found.groups()
        where = f"{page}:{line_of(text, found.start())}"
        if not os.path.exists(os.path.join(ROOT, path)):
            yield f"{where}: quotes {path}, which does not exist"
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            lines = "\n".join(line.strip() for line in file.read().split("\n"))
        if "\n".join(line.strip() for line in quoted.strip().split("\n")) not in lines:
            yield f"{where}: {path} does not have these lines"


def translation_unit(page, text):
    """The C++ of a page, with #line so that messages name the page; empty where there is none."""
    declarations, statements = [], []
    blocks = re.compile(r"^<!-- given:(.*?)-->|^```cpp([^\n]*)\n(.*?)^```", re.S | re.M)
    for found in blocks.finditer(text):
        given, kind, code = found.groups()
        if given is not None:
            place = f'#line {line_of(text, found.start())} "{page}"\n'
            target = declarations if given.startswith("file") else statements
            target.append(place + given.removeprefix("file"))
        elif not kind.strip().startswith(("sketch", "from ")):
            place = f'#line {line_of(text, found.start()) + 1} "{page}"\n'
            (declarations if kind.strip() == "file" else statements).append(place + code)
    if not declarations and not statements:
        return ""
    return ("#include <heddle/heddle.h>\n#include <cstdio>\n#include <iostream>\nusing namespace heddle;\n"
            + "\n".join(declarations) + "\nvoid page() {\n" + "\n".join(statements) + "\n}\n")


def check_code(page, text, options):
    unit = translation_unit(page, text)
    if not unit:
        return
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "page.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(unit)
        done = subprocess.run([options.compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wno-unused",
                               "-I", options.include, source], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            yield f"{page}: its C++ does not compile\n{done.stderr}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler")
    parser.add_argument("--include", default=os.path.join(ROOT, "build/release/include"))
    options = parser.parse_args()
    offences, n_pages = [], 0
    for page in pages():
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            text = file.read()
        n_pages += 1
        offences += check_links(page, without_blocks(text))
        offences += check_paths(page, without_blocks(text))
        offences += check_quotes(page, text)
        if options.compiler:
            offences += check_code(page, text, options)
    for offence in offences:
        print(offence)
    print(f"{n_pages} pages, {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
