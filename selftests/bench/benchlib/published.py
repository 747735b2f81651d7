# SPDX-License-Identifier: GPL-2.0-only
"""Plots of the tables in Documentation/data/, which runs have printed: a plot is of the file that is named beside it.

    scripts/bench plot --data Documentation/data/slope-872365a.txt [--to DIR]

draws all plots of that file. The pages of Documentation/ name one with its file; `make docs` draws it.
"""

import os
import re
import tempfile
import textwrap

from . import plot

# A leg's name in the tables, and what it is called here; its colour and mark.
LEGS = {"in-tree": ("in-tree", "rpcrdma", "s"), "ours": ("ours, version 1", "rpcordma", "o"),
        "ours, v2": ("ours, version 2", "version2", "^"),
        "ours, v2 reduced": ("ours, version 2, several messages", "reduced", "D")}
INCHES = 7.2
# Of the cases of slope: what differs between the legs.
SLOPED = ("WRITE 4 KiB", "WRITE 16 KiB", "WRITE 64 KiB", "longer call")

Unfit = plot.Unfit


def tables(text):
    """{title: [row]}, a row being the texts of its columns. The first row has the heads."""
    found, lines = {}, text.splitlines()
    for i, line in enumerate(lines):
        if i < 2 or not re.fullmatch(r"-+(  +-+)+", line):
            continue
        ends = [(match.start(), match.end()) for match in re.finditer("-+", line)]
        above = [each for each in lines[:i - 1] if each]
        rows = [lines[i - 1]]
        for row in lines[i + 1:]:
            if not row or row.startswith("  "):
                break
            rows.append(row)
        # Numbers end where their column does; text of the last column may go on.
        found[above[-1]] = [[row[begin:end].strip() for begin, end in ends[:-1]] + [row[ends[-1][0]:].strip()]
                            for row in rows]
    return found


class _File:
    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as f:
            self.text = f.read()
        self.tables = tables(self.text)

    def table(self, beginning):
        """(heads, rows) of the table whose title begins so."""
        for title, rows in self.tables.items():
            if title.startswith(beginning):
                return rows[0], rows[1:]
        raise Unfit(f"{self.path}: there is no table {beginning!r}; there are {', '.join(self.tables) or 'none'}")

    def number(self, text):
        try:
            return float(text)
        except ValueError:
            raise Unfit(f"{self.path}: {text!r} is no number") from None

    def interval(self, text):
        """(middle, low, high) of "1.02 [0.88, 1.18]"."""
        match = re.fullmatch(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", text)
        if not match:
            raise Unfit(f"{self.path}: {text!r} is no ratio with its interval")
        return tuple(map(float, match.groups()))

    def column(self, heads, name):
        if name not in heads:
            raise Unfit(f"{self.path}: there is no column {name!r}; there are {', '.join(heads)}")
        return heads.index(name)


def _save(figure, data, title, path):
    # What the file says of its run.
    said = [each for each in data.text.split("\n\n") if "ommit " in each and not each.startswith("#")]
    if not said:
        raise Unfit(f"{data.path}: it does not say of which commit it is")
    what = " ".join(said[0].split()).split(" Documentation/performance.rst")[0]
    plot.finish(figure, title, textwrap.fill(f"{os.path.basename(data.path)}: {what}", 115), path)


def _key(figure, legs):
    """What the marks mean, between the title and the axes."""
    from matplotlib import lines
    height = figure.get_size_inches()[1]
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.3 / height))
    figure.legend(handles=[lines.Line2D((), (), color=plot.COLOURS[LEGS[leg][1]], marker=LEGS[leg][2], linestyle="",
                                        label=LEGS[leg][0]) for leg in legs],
                  loc=(0.02, 1 - 0.5 / height), ncols=len(legs), frameon=False, fontsize=8)


def _dots(axes, names, values):
    """A row for each name; @values: {leg: {name: number}}. Beside each other where they would hide each other."""
    legs = list(values)
    for number, leg in enumerate(legs):
        shift = (number - (len(legs) - 1) / 2) * 0.2
        points = [(values[leg][name], row + shift) for row, name in enumerate(names) if name in values[leg]]
        axes.plot(*zip(*points), LEGS[leg][2], color=plot.COLOURS[LEGS[leg][1]], markersize=4.5, gid=f"dots-{leg}")
    plot.label_rows(axes, names)
    axes.grid(axis="y", visible=True)


def _slope(data, path):
    heads, rows = data.table("Microseconds of each")
    delays = [(i, data.number(head)) for i, head in enumerate(heads) if re.fullmatch(r"\d+", head)]
    steep = data.column(heads, "slope")
    figure, axes = plot.pyplot().subplots(2, 2, figsize=(INCHES, 6.2), layout="constrained")
    for panel, case in zip(axes.flat, SLOPED):
        of = {row[1]: row for row in rows if row[0] == case}
        if set(of) != set(LEGS):
            raise Unfit(f"{data.path}: {case} was measured for {', '.join(of) or 'none'}")
        for leg, (label, colour, mark) in LEGS.items():
            # A packet is held each way.
            points = [(2 * delay, data.number(of[leg][i])) for i, delay in delays]
            panel.plot(*zip(*points), marker=mark, color=plot.COLOURS[colour], markersize=4,
                       linestyle="--" if leg in ("ours", "ours, v2 reduced") else "-",
                       label=f"{label}: {data.number(of[leg][steep]):.2f}", gid=f"line-{case}-{leg}")
        panel.set_title(case, fontsize=9)
        # The key is above the lines.
        panel.set_ylim(0, 1.55 * max(data.number(row[delays[-1][0]]) for row in of.values()))
        panel.legend(fontsize=7, frameon=False, title="round trips", title_fontsize=7)
        panel.set_xlabel("time of a round trip, microseconds")
        panel.set_ylabel("latency, microseconds")
    _save(figure, data, "Latency over the network's delay (flatter is better)", path)


def _trips(data, path):
    heads, rows = data.table("Round trips of")
    legs = [leg for leg in LEGS if leg in heads]
    # Those that all need alike say nothing, and a mount is many operations.
    differ = [row for row in rows if not row[0].startswith("mount") and len({row[heads.index(leg)] for leg in legs}) > 1]
    if not differ:
        raise Unfit(f"{data.path}: all need as many round trips")
    values = {leg: {row[0]: data.number(row[heads.index(leg)]) for row in differ} for leg in legs}
    figure, (axes,) = plot.new_figure(len(differ), width=INCHES, height=1.9 + 0.36 * len(differ))
    _dots(axes, [row[0] for row in differ], values)
    axes.set_xlim(0.5, max(max(each.values()) for each in values.values()) + 0.5)
    axes.set_xlabel(f"round trips of an operation; the other {len(rows) - len(differ)} of {len(rows)} in the file are "
                    "mounts, or alike")
    _key(figure, legs)
    _save(figure, data, "Round trips (further left is better)", path)


def _instructions(data, path):
    """What an RPC takes of the transport with sunrpc and ib_core, as ratios to in-tree's."""
    figure, panels = plot.new_figure(0, columns=2, width=INCHES, height=7.4)
    heads, both = data.table("ours in version 1 and in version 2,")
    for axes, end in zip(panels, plot.ROLES):
        own, rows = data.table(f"{end}, instructions for each RPC")
        theirs = data.column(own, "+sunrpc+ib_core")
        in_tree = {row[0]: data.number(row[theirs]) for row in rows}
        mine = data.column(heads, f"{end}, +sunrpc+ib_core")
        ratios = {leg: {row[0]: data.number(row[mine + i]) / in_tree[row[0]] for row in both if row[0] in in_tree}
                  for i, leg in enumerate(("ours", "ours, v2"))}
        axes.axvline(1.0, color=plot.COLOURS["rpcrdma"], linewidth=2, gid=f"line-{end}")
        _dots(axes, list(in_tree), ratios)
        axes.set_xlim(0.4, 1.25)
        axes.set_title(end, fontsize=9)
        axes.set_xlabel("instructions, ours / in-tree;\nthe line is in-tree, further left is better")
    _key(figure, ("ours", "ours, v2"))
    _save(figure, data, "Instructions of an RPC, of the transport with sunrpc and ib_core", path)


def _codec(data, path):
    ratios = {}
    for title in ("Decode", "Encode"):
        heads, rows = data.table(title)
        at = data.column(heads, "rpcgen / ours")
        ratios.update({f"{title.lower()} {row[0]}": data.interval(row[at]) for row in rows})
    figure, (axes,) = plot.new_figure(len(ratios), width=INCHES)
    plot.draw_codec(axes, ratios)
    _save(figure, data, "Header codec: rpcgen / ours", path)


def _requests(data, path):
    figure, panels = plot.new_figure(0, columns=2, width=INCHES, height=7.4)
    for axes, end in zip(panels, plot.ROLES):
        heads, rows = data.table(f"{end}, for each RPC")
        leg_at, at = data.column(heads, "transport"), data.column(heads, "WRs")
        values, names = {}, list(dict.fromkeys(row[0] for row in rows))
        for leg in ("in-tree", "ours", "ours, v2"):
            values[leg] = {row[0]: data.number(row[at]) for row in rows if row[leg_at] == leg}
            if not values[leg]:
                raise Unfit(f"{data.path}: {leg} is not in it")
        _dots(axes, names, values)
        plot.log_scale(axes, 0.8, 80)
        axes.set_title(end, fontsize=9)
        axes.set_xlabel("work requests (logarithmic);\nfurther left is better")
    _key(figure, ("in-tree", "ours", "ours, v2"))
    _save(figure, data, "Work requests of an RPC", path)


def _rates(data, path):
    heads, rows = data.table("Rates")
    at = data.column(heads, "ours / in-tree")
    ratios = {row[0]: data.interval(row[at]) for row in rows}
    figure, (axes,) = plot.new_figure(len(ratios), width=INCHES)
    plot.draw_rates(axes, ratios)
    _save(figure, data, "Throughput: ours / in-tree", path)


# The plots, and the part whose files have what they show.
PLOTS = {"slope": ("slope", _slope), "trips": ("trips", _trips), "instructions": ("instructions", _instructions),
         "codec": ("codec", _codec), "requests": ("counts", _requests), "rates": ("times", _rates)}


def draw(name, data, path):
    """Draws the plot @name of the file @data as @path. Errors: Unfit, which says what is not as it has to be; OSError."""
    if name not in PLOTS:
        raise Unfit(f"there is no plot {name!r}; there are {', '.join(PLOTS)}")
    part, function = PLOTS[name]
    if not os.path.basename(data).startswith(f"{part}-"):
        raise Unfit(f"the plot {name} is of a file {part}-COMMIT.txt, not of {data}")
    try:
        function(_File(data), path)
    except ImportError:
        raise Unfit("matplotlib is not installed: run scripts/setup docs") from None


def draw_all(data, target):
    """Draws all plots of the file @data into the folder @target. Returns their paths."""
    part = os.path.basename(data).rpartition("-")[0]
    names = [name for name, (of, _) in PLOTS.items() if of == part]
    if not names:
        raise Unfit(f"of {data} there is no plot; there are plots of {', '.join(sorted({of for of, _ in PLOTS.values()}))}")
    os.makedirs(target, exist_ok=True)
    paths = []
    for name in names:
        paths.append(os.path.join(target, f"{name}.svg"))
        draw(name, data, paths[-1])
    return paths


# Files whose plots are known. In the columns is what a plot has to come by: heads that occur twice, text with blanks.
_MADE_UP = {
    "trips-abc1234.txt": """# SPDX

Round trips: a test

Commit abc1234, of a test. Documentation/performance.rst says more.

Round trips of each

operation    in-tree  ours  ours, v2  ours, v2 reduced
-----------  -------  ----  --------  ----------------
mount 3         9.00  6.00      6.00              6.00
GETATTR         1.00  1.00      1.00              1.00
WRITE 4 KiB     3.00  2.00      1.00              1.00
a <b> & c       4.00  2.00      2.00              1.00
""",
    "codec-abc1234.txt": """make bench at commit abc1234.

Decode, ns

shape      ours ns         rpcgen / ours       again / ours
---------  -------  --------------------  -----------------
inline        11.2  17.20 [16.17, 18.30]  4.69 [4.42, 4.96]

Encode

shape      ours ns     rpcgen / ours
---------  -------  -----------------
read-1        22.7  3.37 [3.19, 3.57]
""",
}


def self_test():
    """Draws what is known, and looks at the files. Returns what is wrong."""
    wrong = []

    def expect(what, found, wanted):
        if found != wanted:
            wrong.append(f"published: {what}: {found!r}, not {wanted!r}")

    def refused(what, said, name, text, plot_name):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        try:
            draw(plot_name, path, os.path.join(folder, "refused.svg"))
            expect(what, "drawn", "refused")
        except Unfit as why:
            expect(f"{what}: says why", said in str(why), True)

    with tempfile.TemporaryDirectory(prefix="rpcordma-plot-") as folder:
        for name, text in _MADE_UP.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)
        found = tables(_MADE_UP["codec-abc1234.txt"])
        expect("titles", list(found), ["Decode, ns", "Encode"])
        expect("a row", found["Decode, ns"][1], ["inline", "11.2", "17.20 [16.17, 18.30]", "4.69 [4.42, 4.96]"])
        (trips,) = draw_all(os.path.join(folder, "trips-abc1234.txt"), folder)
        picture = plot.Svg(trips)
        for label, count in (("WRITE 4 KiB", 1), ("a <b> & c", 1), ("GETATTR", 0), ("mount 3", 0)):
            expect(f"trips: labels of {label}", picture.texts.count(label), count)
        expect("trips: the footer names the file", sum("trips-abc1234.txt" in text for text in picture.texts), 1)
        left, right = zip(picture.box("dots-ours, v2 reduced"), picture.box("dots-in-tree"))
        expect("trips: in-tree's are further right", (left[0] < left[1], right[0] < right[1]), (True, True))
        (codec,) = draw_all(os.path.join(folder, "codec-abc1234.txt"), folder)
        picture = plot.Svg(codec)
        decode, encode = (picture.box(f"dot-{name}")[0] for name in ("decode inline", "encode read-1"))
        expect("codec: 3.37, 5 and 17.20 in this order", encode < picture.box("line-5")[0] < decode, True)
        text = _MADE_UP["trips-abc1234.txt"]
        refused("another part's file", "slope-COMMIT", "trips-1.txt", text, "slope")
        refused("no such table", "Round trips of", "trips-2.txt", text.replace("Round trips of", "Trips of"), "trips")
        refused("what is no number", "many", "trips-3.txt", text.replace("4.00", "many"), "trips")
        refused("a file of no commit", "commit", "trips-4.txt", text.replace("ommit", "ut"), "trips")
        refused("no such plot", "no plot", "trips-5.txt", text, "trip")
    return wrong
