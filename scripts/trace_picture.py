#!/usr/bin/env python3
"""Draws a part of a trace that `train_cifar --trace FILE` wrote: a row for each thread and stream.

    scripts/trace_picture.py trace.json picture.svg [--step N] [--steps N]

shows `--steps` steps (1) from step number `--step` (the middle one of the trace).
"""
import argparse
import html
import json

WIDTH, LEFT, LINE, GAP = 960, 118, 17, 12
COLOURS = {"data": "#e9c46a", "copy": "#f4a261", "compute": "#8ecae6", "reduce": "#c77dff", "update": "#90be6d",
           "step": "#dfe3e8", "module": "#bde0fe", "op": "#5fa8d3", "backward": "#b8c0ff"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--step", type=int)
    parser.add_argument("--steps", type=int, default=1)
    return parser.parse_args()


def read_rows(path):
    """(name of the row, its spans in order of beginnings) for each thread and stream."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    rows = {}
    for event in events:
        if event["name"] == "thread_name":
            name = event["args"]["name"]
            device = "" if event["pid"] == 1 else processes[event["pid"]] + " "
            rows[event["pid"], event["tid"]] = (device + name, [])
    for event in events:
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]][1].append(event)
    order = sorted(rows, key=lambda key: (key[0], not rows[key][0].startswith("training"), rows[key][0]))
    return [(rows[key][0], sorted(rows[key][1], key=lambda e: (e["ts"], -e["dur"]))) for key in order]


def window(rows, first, count):
    """When the asked steps begin and end, with the waits before them."""
    steps = [e for _, spans in rows for e in spans if e["name"] == "step" and e["cat"] == "step"]
    if not steps:
        raise SystemExit("trace_picture: the trace has no steps")
    numbers = [e["args"]["number"] for e in steps]
    if first is not None and first not in numbers:
        raise SystemExit(f"trace_picture: no step {first}; there are {numbers[0]} to {numbers[-1]}")
    at = numbers.index(first) if first is not None else len(steps) // 2
    chosen = steps[at:at + count]
    waits = [e["ts"] for _, spans in rows for e in spans
             if e["name"] == "wait for data" and e["ts"] < chosen[0]["ts"]]
    begin = max(waits, default=chosen[0]["ts"])
    return begin, chosen[-1]["ts"] + chosen[-1]["dur"]


def stacked(spans, begin, end):
    """(depth, span) of what lies in the window."""
    open_ends = []
    for span in spans:
        while open_ends and open_ends[-1] <= span["ts"] + 0.0015:
            open_ends.pop()
        depth = len(open_ends)
        open_ends.append(span["ts"] + span["dur"])
        if span["ts"] < end and span["ts"] + span["dur"] > begin:
            yield depth, span


def draw_row(name, spans, top, begin, end):
    scale = (WIDTH - LEFT - 8) / (end - begin)
    yield f'<text x="6" y="{top + 12}" class="row">{html.escape(name)}</text>'
    for depth, span in spans:
        x0 = LEFT + max(0.0, span["ts"] - begin) * scale
        x1 = LEFT + min(end - begin, span["ts"] + span["dur"] - begin) * scale
        y = top + depth * LINE
        label = span["name"] + (f' {span["args"]["number"]}' if "args" in span else "")
        colour = COLOURS.get(span["cat"], "#cccccc")
        yield (f'<rect x="{x0:.1f}" y="{y}" width="{max(x1 - x0, 0.4):.1f}" height="{LINE - 2}" fill="{colour}">'
               f'<title>{html.escape(label)}: {span["dur"] / 1000:.3f} ms</title></rect>')
        room = int((x1 - x0 - 4) / 6.0)
        if room >= min(len(label), 4):
            yield f'<text x="{x0 + 3:.1f}" y="{y + 11}">{html.escape(label[:room])}</text>'


def draw(rows, begin, end):
    body, top = [], 26
    for name, spans in rows:
        inside = list(stacked(spans, begin, end))
        if not inside:
            continue
        body += draw_row(name, inside, top, begin, end)
        top += (max(depth for depth, _ in inside) + 1) * LINE + GAP
    for i in range(6):
        x = LEFT + (WIDTH - LEFT - 8) * i / 5
        body.append(f'<line x1="{x:.1f}" y1="18" x2="{x:.1f}" y2="{top - GAP}" stroke="#00000022"/>')
        body.append(f'<text x="{min(x, WIDTH - 56):.1f}" y="13" class="row">{(end - begin) * i / 5000:.2f} ms</text>')
    style = "text{font:10px sans-serif;fill:#1b263b}.row{font-size:11px;fill:#415a77}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">'
            f'<title>One step in a trace</title><style>{style}</style>'
            f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>' + "\n".join(body) + "</svg>\n")


def main():
    arguments = parse_arguments()
    rows = read_rows(arguments.trace)
    begin, end = window(rows, arguments.step, arguments.steps)
    with open(arguments.picture, "w", encoding="utf-8") as file:
        file.write(draw(rows, begin, end))


if __name__ == "__main__":
    main()
