# SPDX-License-Identifier: GPL-2.0-only
"""The command line of rpcordma(8)."""

import argparse
import contextlib
import dataclasses
import errno
import io
import json
import os
import shutil
import stat
import sys
import tempfile

from . import VERSION, check, prometheus, report, state, status, system, top, trace


# What an error of a stream without a name is about.
STDOUT = "the standard output"
# Exit status of what was asked for and cannot be done: wrong options, a file that cannot be read or written.
CANNOT = 64


class _Closed(io.StringIO):
    """Stands for a standard output that was closed before this program began."""

    encoding = "utf-8"

    def write(self, _):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def open_streams():
    """Makes all three standard streams usable. What an encoding lacks is written as \\x or \\u with its number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # It gets the lowest number, so that no file that is opened later is taken for a stream.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")
    sys.stdout = sys.stdout or _Closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def close_streams():
    """What is still to be printed goes nowhere, and is no error at the end of the program."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_whole(path, text, mode=0o644):
    """Puts @text at @path, "-" for the standard output; a file so that nobody ever reads a part of it. A link stays, and
    what is no file (a device, a FIFO) is written to. Returns whether it is a file. OSErrors name @path."""
    try:
        there = os.stat(path) if path != "-" else None
    except FileNotFoundError:
        there = None
    try:
        printed = path == "-" or there and not isinstance(sys.stdout, _Closed) and os.path.samestat(there, os.fstat(1))
    except OSError:
        printed = False
    if printed:
        sys.stdout.write(text)
        return False
    if there and not stat.S_ISREG(there.st_mode):
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as f:
            f.write(text)
        return False
    to = os.path.realpath(path)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=".rpcordma-", dir=os.path.dirname(to))
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as f:
            os.fchmod(f.fileno(), mode)
            f.write(text)
        os.rename(temporary, to)
    except BaseException as error:
        if temporary:
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from None
        raise
    return True


def run_status(args, machine):
    now = state.collect(machine)
    if args.json:
        text = status.as_json(now)
    elif args.prometheus:
        text = prometheus.text(now)
    else:
        # A file or a pipe has no width; nor has a terminal that is narrower any use.
        wide = not args.output and sys.stdout.isatty()
        width = max(shutil.get_terminal_size().columns if wide else 0, status.WIDTH)
        text = "".join(line + "\n" for line in status.text(now, width))
    if args.output:
        write_whole(args.output, text)
    else:
        sys.stdout.write(text)
    return 0 if now["module"] else 1


def run_check(args, machine):
    found = check.findings(machine)
    if args.json:
        sys.stdout.write(json.dumps({"format": "rpcordma-check", "format_version": 1,
                                     "findings": [dataclasses.asdict(f) for f in found]}, indent=2) + "\n")
    else:
        shown = [f for f in found if not args.quiet or f.weight in (check.ERROR, check.WARNING)]
        lines = check.text(found)[-1:] if args.quiet and not shown else check.text(shown)
        sys.stdout.write("".join(line + "\n" for line in lines))
    return check.status(found)


def run_report(args, machine):
    path = args.output or report.default_name()
    text = report.make(machine, args.mask)
    if write_whole(path, text, mode=0o600):
        print(f"wrote {path}, {len(text) >> 10} KiB: read it before you send it"
              + ("" if args.mask else "; --mask leaves out addresses and names"))
    return 0


def run_top(args, machine):
    if not args.count and not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("rpcordma: top needs a terminal, or --count N for N screens as text", file=sys.stderr)
        return CANNOT
    top.run(lambda: system.System(args.root), args.seconds, args.count)
    return 0


def run_trace(args, machine):
    try:
        if args.input:
            with open(args.input, encoding="utf-8", errors="replace") as f:
                analysis = trace.read(f)
        else:
            with open(args.raw, "w", encoding="utf-8") if args.raw else contextlib.nullcontext() as raw:
                analysis = trace.record(machine, args.seconds, args.buffer, raw)
    except trace.TraceError as error:
        print(f"rpcordma: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # One of a file that is open already has no name.
        raise OSError(error.errno, error.strerror, error.filename or args.input or args.raw or "trace_pipe") from None
    if args.json:
        sys.stdout.write(json.dumps({
            "format": "rpcordma-trace", "format_version": 1, "events": analysis.events, "lost": analysis.lost,
            "unfinished": analysis.open, "buckets_us": trace.BUCKETS, **trace.summary(analysis)}, indent=2) + "\n")
    else:
        sys.stdout.write("".join(line + "\n" for line in trace.text(analysis, top.bars_of(sys.stdout))))
    return 0


def _positive(kind):
    def convert(text):
        value = kind(text)
        if not 0 < value < 1e6:
            raise ValueError(text)
        return value
    convert.__name__ = "positive number"
    return convert


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.print_usage(sys.stderr)
        # Not 2, as argparse has it: that is what check says of a machine.
        self.exit(CANNOT, f"{self.prog}: error: {message}\n")


def parser():
    whole = _Parser(prog="rpcordma", description="What the RDMA transport of NFS does on this machine, "
                                  "and what is wrong with it. rpcordma(8) has more.")
    whole.add_argument("--version", action="version", version=f"rpcordma {VERSION}")
    whole.add_argument("--root", default="/", metavar="FOLDER", help="read recorded files below FOLDER, not this machine's")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)

    one = commands.add_parser("status", help="every connection, of the client and of the server",
                              description="Every connection, of the client and of the server. Exit status: 0; 1 when "
                              "no RDMA transport is loaded.")
    how = one.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="as JSON; status.schema.json describes it")
    how.add_argument("--prometheus", action="store_true", help="for the textfile collector of Prometheus")
    one.add_argument("-o", "--output", metavar="FILE", help="write FILE, as a whole, instead of printing; - prints")
    one.set_defaults(run=run_status)

    one = commands.add_parser("top", help="the same live, with rates and times; q leaves",
                              description="The same as status, live: rates, round-trip and queue times, a sparkline for "
                              "each. q leaves, a blank looks at once.")
    one.add_argument("-s", "--seconds", type=_positive(float), default=1.0, help="between two looks (1)")
    one.add_argument("-n", "--count", type=_positive(int), help="print so many screens, and end")
    one.set_defaults(run=run_top)

    one = commands.add_parser("trace", help="the latency of each RPC, taken apart, by operation",
                              description="The latency of each RPC, taken apart, by operation, from trace points. Exit "
                              "status: 0; 1 when nothing can be traced.")
    one.add_argument("-s", "--seconds", type=_positive(float), default=5.0, help="how long (5); ctrl-C ends it sooner")
    one.add_argument("--json", action="store_true", help="as JSON")
    one.add_argument("--buffer", type=_positive(int), default=trace.BUFFER_KB, metavar="KB",
                     help=f"the kernel's buffer for each CPU ({trace.BUFFER_KB})")
    one.add_argument("--raw", metavar="FILE", help="keep the kernel's lines in FILE")
    one.add_argument("--input", metavar="FILE", help="take lines that were kept, and do not trace")
    one.set_defaults(run=run_trace)

    one = commands.add_parser("check", help="what is wrong on this machine, and the line to type that mends it",
                              description="What is wrong on this machine, and the line to type that mends it. Exit "
                              "status: 0, nothing; 1, it works, but not well, or not after the next boot; 2, NFS over "
                              "RDMA does not work.")
    one.add_argument("--json", action="store_true", help="as JSON")
    one.add_argument("-q", "--quiet", action="store_true", help="errors and warnings alone")
    one.set_defaults(run=run_check)

    one = commands.add_parser("report", help="one file with what a bug report needs",
                              description="Writes one file with what a bug report needs, and says its name.")
    one.add_argument("-m", "--mask", action="store_true", help="words in place of addresses and of names of hosts, exports "
                     "and mounts")
    one.add_argument("-o", "--output", metavar="FILE", help="its name; - is the standard output")
    one.set_defaults(run=run_report)
    return whole


def main(arguments):
    open_streams()
    args = parser().parse_args(arguments)
    if not os.path.isdir(args.root):
        print(f"rpcordma: --root {args.root}: there is no such folder", file=sys.stderr)
        return CANNOT
    try:
        code = args.run(args, system.System(args.root))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Somebody reads no further, as head does.
        close_streams()
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"rpcordma: {error.filename or STDOUT}: {error.strerror}", file=sys.stderr)
        close_streams()
        return CANNOT
