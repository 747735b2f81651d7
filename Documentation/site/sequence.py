# SPDX-License-Identifier: GPL-2.0-only
"""Draws Documentation/pictures/*.seq, in which contexts, messages and what happens are one line each, as SVG.

    title TEXT                      what the whole is; for those who hear it read
    lane NAME END: TEXT             a context of an end (client, server), from left to right
    memory NAME END: TEXT           a narrow lane: memory, and who may use it when
    note LANE: TEXT                 something happens in that context; a number at its start is a step of the tour
    send FROM TO: TEXT              a message
    rdma FROM TO: TEXT              an RDMA operation, which one end alone takes part in
    wake FROM TO: TEXT              a context of the same end is woken
    begin MEMORY KIND: TEXT         from here on it is so of that memory; KIND is own, device or peer
    end MEMORY                      no longer
    beside                          the next line begins as high as the last one did
    # TEXT                          a comment

" / " in TEXT begins another line, and what is in `backquotes` is a name of the source.
"""

import re
from xml.sax.saxutils import escape

LANE, NARROW, MARGIN, LINE, GAP = 208, 112, 12, 17, 14
# Pixels of a character, at most: a line that is wider than its box is an error, as it would be cut.
PLAIN, CODE = 6.7, 7.23
COLOURS = {"own": "#cfe8cf", "device": "#fbe3b0", "peer": "#f5c9c0"}
STYLE = """
text { font: 12px "DejaVu Sans", Arial, sans-serif; fill: #1c1c1c }
.c { font-family: "DejaVu Sans Mono", "Liberation Mono", monospace }
.h { font-weight: bold; font-size: 14px }
.n { fill: #ffffff; stroke: #8a8a8a }
.l { stroke: #b5b5b5; stroke-dasharray: 3 3 }
.s { stroke: #0b5394; stroke-width: 2; fill: none }
.r { stroke: #a04000; stroke-width: 4; fill: none }
.w { stroke: #555555; stroke-width: 1.4; stroke-dasharray: 6 4; fill: none }
.m { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
.e { fill: #eef3f9 } .f { fill: #f7f2ea }
"""


class Wrong(Exception):
    """A source cannot be drawn; the text says where and why."""


class Lane:
    def __init__(self, name, end, text, narrow, left):
        self.name, self.end, self.text, self.narrow = name, end, text, narrow
        self.left, self.width = left, NARROW if narrow else LANE
        self.middle = left + self.width / 2
        self.since = None  # (y, kind, text) of what it is at the moment


def names(text):
    """What is in backquotes."""
    return re.findall(r"`([^`]+)`", text)


def _width(line):
    return sum(len(part) * (CODE if i % 2 else PLAIN) for i, part in enumerate(line.split("`")))


def _spans(line):
    return "".join(f'<tspan class="c">{escape(part)}</tspan>' if i % 2 else escape(part)
                   for i, part in enumerate(line.split("`")))


def _lines(text, room, where):
    lines = text.split(" / ")
    for line in lines:
        if line.count("`") % 2:
            raise Wrong(f"{where}: a backquote is missing in {line!r}")
        if _width(line) > room:
            raise Wrong(f"{where}: {line!r} takes {_width(line):.0f} pixels, and there are {room:.0f}: begin another "
                        'line with " / "')
    return lines


class _Drawing:
    def __init__(self):
        self.title, self.lanes, self.order = "", {}, []
        self.shapes, self.bars, self.y, self.top, self.beside = [], [], 0, 0, None
        self.ends = {}

    def lane(self, where, name):
        if name not in self.lanes:
            raise Wrong(f"{where}: there is no lane {name!r}; there are {', '.join(self.lanes)}")
        return self.lanes[name]

    def text(self, x, y, lines, css="", anchor="middle"):
        for i, line in enumerate(lines):
            self.shapes.append(f'<text x="{x:g}" y="{y + i * LINE:g}" text-anchor="{anchor}"'
                               f'{f" class={chr(34)}{css}{chr(34)}" if css else ""}>{_spans(line)}</text>')

    def place(self, height):
        """The y of something that is so high."""
        if self.beside is not None:
            at = self.beside
        else:
            at = self.y
        self.top, self.y, self.beside = at, max(self.y, at + height + GAP), None
        return at

    def note(self, where, lane, text):
        lines = _lines(text, lane.width - 14, where)
        height = len(lines) * LINE + 8
        at = self.place(height)
        self.shapes.append(f'<rect class="n" x="{lane.left + 4:g}" y="{at:g}" width="{lane.width - 8:g}" '
                           f'height="{height}" rx="4"/>')
        self.text(lane.left + 10, at + LINE, lines, anchor="start")

    def arrow(self, where, css, one, other, text):
        if one is other:
            raise Wrong(f"{where}: from a lane to itself")
        lines = _lines(text, abs(one.middle - other.middle) - 10, where)
        at = self.place(len(lines) * LINE + 10)
        self.text((one.middle + other.middle) / 2, at + LINE - 4, lines, "m")
        y = at + len(lines) * LINE + 4
        self.shapes.append(f'<line class="{css}" x1="{one.middle:g}" y1="{y:g}" x2="{other.middle:g}" y2="{y:g}" '
                           f'marker-end="url(#{css})"/>')

    def close(self, lane):
        """Draws what @lane has been until here."""
        if lane.since:
            since, kind, lines = lane.since
            self.bars.append(f'<rect x="{lane.left + 4:g}" y="{since:g}" width="{lane.width - 8:g}" '
                             f'height="{self.y - GAP - since:g}" rx="3" fill="{COLOURS[kind]}" stroke="#8a8a8a"/>')
            for i, line in enumerate(lines):
                self.bars.append(f'<text x="{lane.middle:g}" y="{since + 15 + i * LINE:g}" text-anchor="middle">'
                                 f'{_spans(line)}</text>')
            if since + 8 + len(lines) * LINE > self.y - GAP + 4:
                raise Wrong(f"{lane.name}: {lines[0]!r} is shorter than its text")
        lane.since = None


def _step(drawing, where, line):
    head, _, text = line.partition(":")
    words, text = head.split(), text.strip()
    what, lanes = words[0], drawing.lanes
    if what == "title":
        drawing.title = line.partition(" ")[2]
    elif what in ("lane", "memory") and len(words) == 3:
        left = max((lane.left + lane.width for lane in lanes.values()), default=MARGIN)
        lane = lanes[words[1]] = Lane(words[1], words[2], text, what == "memory", left)
        drawing.ends.setdefault(words[2], []).append(lane)
        drawing.y = drawing.top = MARGIN + 26 + 3 * LINE + GAP
    elif what == "beside" and len(words) == 1:
        drawing.beside = drawing.top
    elif what == "note" and len(words) == 2:
        drawing.note(where, drawing.lane(where, words[1]), text)
    elif what in ("send", "rdma", "wake") and len(words) == 3:
        drawing.arrow(where, what[0], drawing.lane(where, words[1]), drawing.lane(where, words[2]), text)
    elif what == "begin" and len(words) == 3 and words[2] in COLOURS:
        lane = drawing.lane(where, words[1])
        drawing.close(lane)
        lane.since = (drawing.y - 4, words[2], _lines(text, lane.width - 12, where))
    elif what == "end" and len(words) == 2:
        drawing.close(drawing.lane(where, words[1]))
    else:
        raise Wrong(f"{where}: {line!r} is none of the lines that Documentation/site/sequence.py tells of")


def draw(source, name):
    """The SVG of the text @source, which is of the file @name."""
    drawing = _Drawing()
    for number, line in enumerate(source.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            _step(drawing, f"{name}:{number}", line.strip())
    if not drawing.lanes or not drawing.title:
        raise Wrong(f"{name}: it has no lane, or no title")
    for lane in drawing.lanes.values():
        drawing.close(lane)
    width = max(lane.left + lane.width for lane in drawing.lanes.values()) + MARGIN
    height = drawing.y + MARGIN
    out = ['<?xml version="1.0" encoding="utf-8"?>',
           f'<!-- SPDX-License-Identifier: GPL-2.0-only; drawn of {escape(name)} -->',
           f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
           f'viewBox="0 0 {width:g} {height:g}" role="img">',
           f"<title>{escape(drawing.title)}</title>", f"<style>{STYLE}</style>", "<defs>"]
    for css, colour, size in (("s", "#0b5394", 9), ("r", "#a04000", 14), ("w", "#555555", 8)):
        out.append(f'<marker id="{css}" viewBox="0 0 10 10" refX="9" refY="5" markerUnits="userSpaceOnUse" '
                   f'markerWidth="{size}" markerHeight="{size}" orient="auto"><path d="M0 0 L10 5 L0 10 z" '
                   f'fill="{colour}"/></marker>')
    out += ["</defs>", f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>']
    for number, (end, lanes) in enumerate(drawing.ends.items()):
        left, right = lanes[0].left, lanes[-1].left + lanes[-1].width
        out.append(f'<rect class="{"ef"[number % 2]}" x="{left + 2:g}" y="{MARGIN}" width="{right - left - 4:g}" '
                   f'height="{height - 2 * MARGIN:g}" rx="6"/>')
        out.append(f'<text class="h" x="{(left + right) / 2:g}" y="{MARGIN + 19}" text-anchor="middle">'
                   f"{escape(end)}</text>")
    for lane in drawing.lanes.values():
        for i, line in enumerate(_lines(lane.text, lane.width - 6, f"{name}: lane {lane.name}")):
            out.append(f'<text x="{lane.middle:g}" y="{MARGIN + 38 + i * LINE}" text-anchor="middle">'
                       f"{_spans(line)}</text>")
        out.append(f'<line class="l" x1="{lane.middle:g}" y1="{MARGIN + 26 + 3 * LINE}" x2="{lane.middle:g}" '
                   f'y2="{height - MARGIN - 4:g}"/>')
    return "\n".join([*out, *drawing.bars, *drawing.shapes, "</svg>", ""])
