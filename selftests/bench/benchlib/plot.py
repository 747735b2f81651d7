# SPDX-License-Identifier: GPL-2.0-only
"""Plots of the newest runs' JSON files, as SVG whose text is text: the same files for the same runs.

    scripts/bench plot [--to DIR]
    scripts/bench plot --data Documentation/data/PART-COMMIT.txt [--to DIR]

The second draws the tables that a run has printed, as they are in Documentation/data/ (published.py). A part that was not run, or a case that only one transport was measured in, is said and counted as skipped.
"""

import argparse
import importlib.util
import json
import math
import os
import re
import statistics
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from . import report, slope, stats

NAMES = {"rpcordma": "ours", "rpcrdma": "in-tree"}
# Blue and orange differ for every kind of colour blindness, and on a grey print.
COLOURS = {"rpcordma": "#0072b2", "rpcrdma": "#e69f00", "version2": "#009e73", "reduced": "#cc79a7"}
ROLES = ("client", "server")
# Of the cases of slope.
SLOPED = ("READ 16 KiB", "WRITE 16 KiB", "long call", "longer call")
# Percentiles of latency, and their marks.
PERCENTILES = {"p10": "|", "p25": None, "p50": "o", "p75": None, "p95": "|", "p99": "|", "p999": ">"}
# Inches of a row, and of what is above and below the rows.
ROW, FRAME = 0.27, 1.6
PYTHON = "/usr/bin/python3"
SVG = "{http://www.w3.org/2000/svg}"


class Unfit(Exception):
    """There is nothing to draw; the text says why."""


def pyplot():
    import matplotlib
    matplotlib.use("svg")
    # Ids that are drawn by lot would make each file another.
    matplotlib.rcParams.update({"svg.hashsalt": "rpcordma", "svg.fonttype": "none", "font.size": 9,
                                "font.family": ["DejaVu Sans", "sans-serif"], "axes.grid": True,
                                "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True,
                                "axes.spines.top": False, "axes.spines.right": False})
    from matplotlib import pyplot
    return pyplot


def new_figure(rows, columns=1, width=8.0, height=None):
    """(figure, axes as a list): as high as its rows need."""
    figure, axes = pyplot().subplots(1, columns, figsize=(width, height or FRAME + ROW * rows), sharey=True,
                                     squeeze=False, layout="constrained")
    return figure, list(axes[0])


def finish(figure, title, origin, path):
    """Writes the figure to @path, with @origin, where its figures are from, below it."""
    figure.suptitle(title, fontsize=11, fontweight="bold")
    figure.supxlabel(origin, fontsize=6.5, color="#555555")
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    pyplot().close(figure)


def _save(figure, run, title, path, more=""):
    """Under the figure: what was measured where. Of @run only what stays the same when it is drawn again."""
    at = run["machine"]
    finish(figure, title, f"scripts/bench {run['what']}: commit {run['commit']}, {run['time'][:10]}, {at['cpu']}, "
           f"{at['cpus']} CPUs, host kernel {at['kernel']}{more}", path)


def label_rows(axes, names):
    """@names down the side, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def log_scale(axes, low, high):
    """A logarithmic axis with plain numbers where there is room for them."""
    from matplotlib import ticker
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    few = high / low > 100
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1,) if few else (1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())


def _both(rows, left_out):
    """{case: {xprt: its rows, by round}}, of the cases that both were measured in."""
    found = {}
    rows = [row for row in rows if "profile" not in row]
    for row in sorted(rows, key=lambda row: row.get("round", 0)):
        found.setdefault(row["case"], {}).setdefault(row["xprt"], []).append(row)
    # In the order of measuring.
    cases = {row["case"]: found[row["case"]] for row in rows}
    for case, by in cases.items():
        left_out += [f"{case}: {NAMES[xprt]} was not measured" for xprt in NAMES if xprt not in by]
    cases = {case: by for case, by in cases.items() if all(xprt in by for xprt in NAMES)}
    if not cases:
        raise Unfit("no case was measured with both transports")
    return cases


def _whiskers(axes, ratios, goals, label):
    """A dot for each ratio, whiskers for its interval, and lines at @goals."""
    for goal, style in goals:
        axes.axvline(goal, color="#555555", linestyle=style, linewidth=0.9, gid=f"line-{goal:g}")
    for number, (name, (middle, low, high)) in enumerate(ratios.items()):
        axes.plot((low, high), (number, number), color=COLOURS["rpcordma"], linewidth=1.4, gid=f"whisker-{name}")
        axes.plot((middle,), (number,), "o", color=COLOURS["rpcordma"], markersize=5, gid=f"dot-{name}",
                  markerfacecolor=COLOURS["rpcordma"] if low < high else "white")
    label_rows(axes, list(ratios))
    # A wild interval must not make all others points.
    middles = [middle for middle, _, _ in ratios.values()] + [goal for goal, _ in goals]
    low = max(min(0.9, *(low for _, low, _ in ratios.values())), min(middles) / 2)
    high = min(max(1.2, *(high for _, _, high in ratios.values())), max(middles) * 2)
    log_scale(axes, low * 0.95, high * 1.05)
    axes.set_xlabel(label)


def draw_rates(axes, ratios, more=""):
    """Rates, with the goals that their intervals have to reach."""
    _whiskers(axes, ratios, ((0.97, ":"), (1.0, "-"), (1.15, "--")),
              "rate, ours / in-tree (logarithmic), with 95 % interval;\nfurther right is better; "
              f"dotted 0.97: no cell's interval below;\ndashed 1.15: where the structure differs{more}")


def draw_codec(axes, ratios):
    """Times of headers, with the goal of a decode."""
    _whiskers(axes, ratios, ((1.0, "-"), (5.0, "--")),
              "time of rpcgen's code / time of ours (logarithmic), with 95 % interval;\n"
              "further right is better; dashed 5: the goal of a decode")


def plot_ratio(run, path, left_out):
    """Throughput: ours beside in-tree's."""
    ratios, single = {}, False
    for case, by in _both(run["rows"], left_out).items():
        rounds = {xprt: {row.get("round", 0): row["iops"] for row in by[xprt]} for xprt in NAMES}
        common = [turn for turn in rounds["rpcordma"] if turn in rounds["rpcrdma"]]
        values = [[rounds[xprt][turn] for turn in common] for xprt in NAMES]
        if not common or min(map(min, values)) <= 0:
            left_out.append(f"{case}: no round that both did something in")
        elif len(common) > 1:
            ratios[case] = stats.ratio(*values)
        else:
            single = True
            ratios[case] = (values[0][0] / values[1][0],) * 3
    if not ratios:
        raise Unfit("no case has a round of both transports")
    figure, (axes,) = new_figure(len(ratios))
    draw_rates(axes, ratios, "\na hollow dot: one round, no interval" if single else "")
    _save(figure, run, "Throughput: ours / in-tree", path)
    return {"labels": list(ratios)}


def plot_latency(run, path, left_out):
    """Percentiles of latency, the two transports' rows of a case next to each other."""
    cases = {case: by for case, by in _both(run["rows"], left_out).items()
             if all(set(PERCENTILES) <= set(row.get("lat") or ()) for xprt in NAMES for row in by[xprt])}
    if not cases:
        raise Unfit("no latency was measured")
    figure, (axes,) = new_figure(len(cases) * 1.2)
    every = []
    for number, (case, by) in enumerate(cases.items()):
        for xprt, side in zip(NAMES, (-0.17, 0.17)):
            at = {p: statistics.median(row["lat"][p] for row in by[xprt]) for p in PERCENTILES}
            every += at.values()
            y = number + side
            axes.plot((at["p10"], at["p999"]), (y, y), color=COLOURS[xprt], linewidth=1)
            axes.plot((at["p25"], at["p75"]), (y, y), color=COLOURS[xprt], linewidth=4, solid_capstyle="butt",
                      gid=f"span-{case}-{xprt}")
            for percentile, mark in PERCENTILES.items():
                if mark:
                    axes.plot((at[percentile],), (y,), mark, color=COLOURS[xprt],
                              markersize=6 if mark == "|" else 4,
                              markerfacecolor="white" if mark == "o" else COLOURS[xprt])
    label_rows(axes, list(cases))
    log_scale(axes, min(every) / 1.3, max(every) * 1.3)
    axes.set_xlabel("latency of an operation, microseconds (logarithmic); further left is better\n"
                    "ticks: 10, 95 and 99 %; thick: 25 to 75 %; dot: median; arrow head: 99.9 %")
    _legend(figure)
    _save(figure, run, "Latency, medians of the rounds", path)
    return {"labels": list(cases)}


def _legend(figure):
    from matplotlib import lines
    figure.legend(handles=[lines.Line2D((), (), color=COLOURS[xprt], linewidth=6, label=NAMES[xprt])
                           for xprt in NAMES], loc="upper right", ncols=2, frameon=False)


def _text(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{round(value, 1) + 0.0:g}"


def _bars(run, path, cases, value, title, label):
    """Client and server side by side, of each case a bar of either transport with its number."""
    figure, panels = new_figure(len(cases) * 1.25, columns=len(ROLES), width=9.5)
    texts = []
    for axes, role in zip(panels, ROLES):
        for xprt, side in zip(NAMES, (-0.2, 0.2)):
            values = [statistics.median(value(row, role) for row in by[xprt]) for by in cases.values()]
            bars = axes.barh([number + side for number in range(len(cases))], values, 0.38, color=COLOURS[xprt],
                             hatch="" if xprt == "rpcordma" else "////", edgecolor="white", linewidth=0)
            for bar, case in zip(bars, cases):
                bar.set_gid(f"bar-{role}-{case}-{xprt}")
            texts += [_text(each) for each in values]
            axes.bar_label(bars, [_text(each) for each in values], padding=2, fontsize=7)
        axes.margins(x=0.12)
        axes.set_title(role, fontsize=9)
        axes.set_xlabel(label)
        label_rows(axes, list(cases))
    _legend(figure)
    _save(figure, run, title, path)
    return {"labels": list(cases), "texts": texts}


def plot_wrs(run, path, left_out):
    """Work requests of each RPC, by the in-tree transport and by ours."""
    return _bars(run, path, _both(run["rows"], left_out), lambda row, role: row[role]["send_wrs"],
                 "Work requests for each RPC (fewer is better)", "work requests of the send queue")


def plot_instructions(run, path, left_out):
    """Instructions of the transport for each RPC."""
    return _bars(run, path, _both(run["rows"], left_out), lambda row, role: row[role]["transport"],
                 "Instructions of the transport for each RPC (fewer is better)", "guest instructions")


def plot_codec(run, path, left_out):
    """Decode and encode, beside rpcgen's."""
    ratios = {}
    for function in ("decode", "encode"):
        for row in run["rows"]:
            if row["function"] != function:
                continue
            name = f"{function} {row['shape']}"
            if row.get("rpcgen", {}).get("ratio"):
                ratios[name] = tuple(row["rpcgen"]["ratio"])
            else:
                left_out.append(f"{name}: no times were taken")
    if not ratios:
        raise Unfit("no times were taken")
    figure, (axes,) = new_figure(len(ratios))
    draw_codec(axes, ratios)
    _save(figure, run, "Header codec: rpcgen / ours", path)
    return {"labels": list(ratios)}


def plot_scale(run, path, left_out):
    """Memory of a connection, by the number of connections."""
    sizes = sorted({row["connections"] for row in run["rows"]})
    rows = {xprt: {} for xprt in NAMES}
    for row in run["rows"]:
        rows[row["xprt"]].setdefault(row["connections"], []).append(row)
    for xprt, found in rows.items():
        left_out += [f"{size} connections: {NAMES[xprt]} was not measured" for size in sizes if size not in found]
    if not all(rows.values()):
        raise Unfit("only one transport was measured")
    figure, axes = pyplot().subplots(figsize=(6, 3.6), layout="constrained")
    axes.set_title("memory of the server for each connection", fontsize=9)
    axes.set_ylabel("KiB")
    for xprt, found in rows.items():
        at = [size for size in sizes if size in found]

        def draw_line(style, name, value, xprt=xprt, at=at, found=found):
            values = [statistics.median(value(row) for row in found[size]) for size in at]
            axes.plot(at, values, style, color=COLOURS[xprt], markersize=4, label=f"{NAMES[xprt]}{name}",
                      gid=f"line-{xprt}{name}")

        draw_line("o-", ", never busy", lambda row: row["idle"]["total"])
        draw_line("s--", ", has been busy", lambda row: row["busy"]["total"])
    log_scale(axes, min(sizes) / 1.5, max(sizes) * 1.5)
    axes.set_xticks(sizes)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("connections (logarithmic)")
    axes.legend(fontsize=7, frameon=False)
    _save(figure, run, "Scale (lower is better)", path)
    return {"labels": [str(size) for size in sizes]}


def plot_slope(run, path, left_out):
    """Latency over the delay of a round trip: a line of each transport."""
    cases = {}
    for case in dict.fromkeys(row["case"] for row in run["rows"]):
        points = {leg: slope.points_of(run["rows"], leg, case) for leg in slope.LEGS}
        left_out += [f"{case}: {slope.NAMES[leg]} was not measured" for leg in points if not points[leg]]
        if all(points.values()) and case in SLOPED:
            cases[case] = points
    if not cases:
        raise Unfit("no case was measured in all four")
    figure, panels = new_figure(len(cases), columns=len(cases), width=2.7 * len(cases), height=3.4)
    texts = []
    for axes, (case, points) in zip(panels, cases.items()):
        for leg, mark in zip(slope.LEGS, "so^D"):
            steep, _ = slope.line(points[leg])
            texts.append(f"{slope.NAMES[leg]}: {steep:.2f}")
            axes.plot(*zip(*sorted(points[leg])), marker=mark, color=COLOURS[leg], markersize=4, label=texts[-1],
                      linestyle="--" if leg == "rpcordma" else "-", gid=f"line-{case}-{leg}")
        axes.set_title(case, fontsize=9)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("a round trip, microseconds")
        axes.legend(fontsize=7, frameon=False, title="slope", title_fontsize=7)
    panels[0].set_ylabel("latency, microseconds")
    _save(figure, run, "Latency over the network's delay (flatter is better)", path)
    return {"labels": list(cases), "texts": texts}


# What is drawn of which run. A name is the file's.
PLOTS = {"ratio": ("times", plot_ratio), "latency": ("times", plot_latency), "wrs": ("counts", plot_wrs),
         "instructions": ("instructions", plot_instructions), "codec": ("codec", plot_codec),
         "scale": ("scale", plot_scale), "slope": ("slope", plot_slope)}


def draw(source, target):
    """Draws what the runs in @source give. Returns ({name: what it shows}, [why something is missing])."""
    drawn, skipped = {}, []
    os.makedirs(target, exist_ok=True)
    for name, (part, plot) in PLOTS.items():
        path = os.path.join(target, f"{name}.svg")
        left_out = []
        try:
            try:
                with open(os.path.join(source, f"{part}.json")) as f:
                    run = json.load(f)
            except FileNotFoundError:
                raise Unfit(f"{os.path.join(source, part)}.json is not there: run scripts/bench {part}") from None
            drawn[name] = {"path": path, **plot(run, path, left_out)}
        except Unfit as why:
            # A plot of an older run would pass for one of this.
            if os.path.exists(path):
                os.remove(path)
            skipped.append(f"{name}: {why}")
        skipped += [f"{name}: {why}" for why in left_out]
    return drawn, skipped


class Svg:
    """A drawn file, as its reader sees it."""

    def __init__(self, path):
        self.tree = ElementTree.parse(path)
        self.texts = ["".join(text.itertext()) for text in self.tree.iter(f"{SVG}text")]
        self._groups = {group.get("id"): group for group in self.tree.iter(f"{SVG}g")}

    def box(self, gid):
        """(left, right) of what has this id."""
        group = self._groups[gid]
        marks = [float(use.get("x")) for use in group.iter(f"{SVG}use")]
        if not marks:
            marks = [float(x) for path in group.iter(f"{SVG}path") if path.get("clip-path") or not marks
                     for x in re.findall(r"[ML] (-?[\d.]+) ", path.get("d"))]
        return min(marks), max(marks)

    def level(self, gid):
        """Where a line begins, from above."""
        return float(re.match(r"M -?[\d.]+ (-?[\d.]+)", next(self._groups[gid].iter(f"{SVG}path")).get("d"))[1])


def _made_up():
    """Runs whose plots are known: {part: run}."""
    head = {"time": "2000-01-01T00:00:00+0000", "commit": "abc1234", "rounds": 3, "wrong": [], "goals": [],
            "machine": {"cpu": "a CPU", "cpus": 2, "kernel": "6.12", "load": 0.5}}

    def rows(case, ours, rounds=3, **more):
        return [{"case": case, "xprt": xprt, "round": turn, **more,
                 "iops": (100 + turn) * (1 + jitter * turn) * (ours if xprt == "rpcordma" else 1),
                 "lat": {p: (i + 1) * 10 * (1 if xprt == "rpcordma" else ours)
                         for i, p in enumerate(PERCENTILES)}}
                for turn in range(rounds) for xprt, jitter in (("rpcrdma", 0), ("rpcordma", 0.05))]

    def costs(what, case, client, server):
        return [{"case": case, "xprt": xprt, "round": 0, "client": {what: client[i]}, "server": {what: server[i]}}
                for i, xprt in enumerate(("rpcrdma", "rpcordma"))]

    times = rows("twice <4 KiB> & more", 2.0) + rows("half", 0.5) + rows("one round", 1.5, rounds=1)
    times += [row for row in rows("only ours", 1) if row["xprt"] == "rpcordma"]
    times += [{"case": "half", "xprt": xprt, "profile": {}} for xprt in NAMES]
    return {"times": {**head, "what": "times", "rows": times},
            "counts": {**head, "what": "counts", "rows": costs("send_wrs", "READ 1 MiB", (17, 2), (57, 4)) +
                       costs("send_wrs", "NULL", (1, 1), (1, 1))},
            "scale": {**head, "what": "scale", "rows": [
                {"connections": size, "xprt": xprt, "round": 0,
                 "idle": {"total": 100 * factor}, "busy": {"total": 300 * factor}}
                for size in (7, 130) for xprt, factor in (("rpcrdma", 4), ("rpcordma", 1))]},
            "slope": {**head, "what": "slope", "rows": [
                {"case": case, "xprt": leg, "round": 0, "delay": delay, "latency": 40 + 2 * delay * trips}
                for case in ("WRITE 16 KiB", "GETATTR") for leg, trips in zip(slope.LEGS, (3, 2, 1, 1))
                for delay in slope.DELAYS]},
            "instructions": {**head, "what": "instructions",
                             "rows": costs("transport", "READ 1 MiB", (40123.4, 2345), (12345, 999.9))}}


def self_test():
    """Draws what is known, and looks at the files. Returns what is wrong."""
    wrong = []

    def expect(what, found, wanted):
        if found != wanted:
            wrong.append(f"{what}: {found!r}, not {wanted!r}")

    with tempfile.TemporaryDirectory(prefix="rpcordma-plot-") as folder:
        runs = _made_up()
        for part, run in runs.items():
            with open(os.path.join(folder, f"{part}.json"), "w") as f:
                json.dump(run, f)
        # Of an older run, without its JSON file.
        stale = os.path.join(folder, "one", "codec.svg")
        os.makedirs(os.path.dirname(stale))
        with open(stale, "w"):
            pass
        drawn, skipped = draw(folder, os.path.join(folder, "one"))
        expect("files", sorted(os.listdir(os.path.join(folder, "one"))),
               ["instructions.svg", "latency.svg", "ratio.svg", "scale.svg", "slope.svg", "wrs.svg"])
        expect("skipped", sorted(line.split(":")[0] for line in skipped), ["codec", "latency", "ratio"])
        if wrong:
            return wrong
        again, _ = draw(folder, os.path.join(folder, "two"))
        for name, (one, two) in {name: (drawn[name]["path"], again[name]["path"]) for name in drawn}.items():
            with open(one, "rb") as first, open(two, "rb") as second:
                expect(f"{name}, drawn again, is the same", first.read() == second.read(), True)

        cases = ["twice <4 KiB> & more", "half", "one round"]
        pictures = {name: Svg(what["path"]) for name, what in drawn.items()}
        for name, labels in (("ratio", cases), ("latency", cases), ("wrs", ["READ 1 MiB", "NULL"]),
                             ("instructions", ["READ 1 MiB"]), ("scale", ["7", "130"]),
                             ("slope", ["WRITE 16 KiB"])):
            for label in labels:
                expect(f"{name}: labels of {label}", pictures[name].texts.count(label), 1)
            expect(f"{name}: the footer names the commit",
                   sum("commit abc1234, 2000-01-01, a CPU" in text for text in pictures[name].texts), 1)
            expect(f"{name}: cases of one transport", "only ours" in pictures[name].texts, False)

        ratio = pictures["ratio"]
        one = ratio.box("line-1")[0]
        twice, half = (ratio.box(f"dot-{case}")[0] for case in cases[:2])
        expect("ratio: 1/2, 1, 2 in this order", half < one < twice, True)
        # What differs from round to round, by 1.05 in the middle, does so in either.
        unit = (twice - half) / math.log(4)
        expect("ratio: 2 and 1/2 are as far from 1.05, on a logarithmic axis",
               abs(twice - one - unit * math.log(2 * 1.05)) < 0.5, True)
        low, high = ratio.box(f"whisker-{cases[0]}")
        expect("ratio: the interval is around its dot", low < twice < high, True)
        expect("ratio: 0.97, 1.0 and 1.15 in this order", ratio.box("line-0.97") < (one, one) <
               ratio.box("line-1.15"), True)

        latency = pictures["latency"]
        ours, theirs = (latency.box(f"span-{cases[0]}-{xprt}") for xprt in NAMES)
        expect("latency: there is a distance", ours[1] - ours[0] > 10, True)
        expect("latency: ours, half of in-tree's, is further left", ours[0] < theirs[0], True)
        expect("latency: of both 75 % is twice 25 %", round(ours[1] - ours[0], 1),
               round(theirs[1] - theirs[0], 1))

        wrs = pictures["wrs"]
        for text, count in (("17", 1), ("57", 1), ("4", 1), ("2", 1), ("1", 4)):
            # Beside the axes' own numbers.
            expect(f"wrs: numbers {text} at bars", drawn["wrs"]["texts"].count(text), count)
            expect(f"wrs: {text} is written", wrs.texts.count(text) >= count, True)
        for text in ("40123", "2345", "12345", "1000"):
            expect(f"instructions: {text} is written", pictures["instructions"].texts.count(text), 1)
        for text in ("in-tree: 3.00", "ours: 2.00", "ours, v2: 1.00"):
            expect(f"slope: {text} is written", pictures["slope"].texts.count(text), 1)
        expect("slope: no panel of another case", pictures["slope"].texts.count("GETATTR"), 0)
        scale = pictures["scale"]
        levels = {line: scale.level(f"line-{line}") for line in (
            "rpcordma, never busy", "rpcordma, has been busy", "rpcrdma, never busy", "rpcrdma, has been busy")}
        expect("scale: 100, 300, 400, 1200 in this order", list(levels),
               sorted(levels, key=levels.get, reverse=True))
        width = {xprt: (lambda box: box[1] - box[0])(wrs.box(f"bar-client-READ 1 MiB-{xprt}")) for xprt in NAMES}
        expect("wrs: 17 and 2 as lengths", round(width["rpcrdma"] / width["rpcordma"], 2), 8.5)
    from . import published
    return wrong + published.self_test()


def _with_matplotlib():
    """Debian's packages are those of Debian's Python, which need not be the first one found."""
    if importlib.util.find_spec("matplotlib"):
        return True
    if os.path.exists(PYTHON) and os.path.realpath(PYTHON) != os.path.realpath(sys.executable):
        os.execv(PYTHON, [PYTHON, *sys.argv])
    return False


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench plot", description=__doc__.splitlines()[0])
    parser.add_argument("--to", metavar="DIR", default=report.BUILD, help="where the .svg go: build/bench")
    parser.add_argument("--data", metavar="FILE", help="of Documentation/data, instead of the newest runs")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args(arguments)
    if not _with_matplotlib():
        print("plot: matplotlib is not installed: run scripts/setup bench\n0 passed, 1 failed, 0 skipped")
        return 1
    if args.self_test:
        wrong = self_test()
        for line in wrong:
            print(f"FAILED   {line}")
        print(f"{int(not wrong)} passed, {len(wrong)} failed, 0 skipped")
        return 1 if wrong else 0
    if args.data:
        from . import published
        try:
            paths = published.draw_all(args.data, args.to)
        except (OSError, Unfit) as error:
            print(f"plot: {error}\n0 passed, 1 failed, 0 skipped")
            return 1
        print("\n".join(map(os.path.relpath, paths)))
        print(f"{len(paths)} passed, 0 failed, 0 skipped")
        return 0
    drawn, skipped = draw(report.BUILD, args.to)
    for name, what in drawn.items():
        print(f"{os.path.relpath(what['path'])}: {len(what['labels'])} cases")
    for line in skipped:
        print(f"skipped  {line}")
    print(f"{len(drawn)} passed, 0 failed, {len(skipped)} skipped")
    return 0 if drawn else 1
