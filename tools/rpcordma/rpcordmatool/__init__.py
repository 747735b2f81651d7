# SPDX-License-Identifier: GPL-2.0-only
"""What the command rpcordma consists of. Python 3.11 and its standard library, nothing else.

    system.py      files of the kernel, and what came of reading each
    parse.py       the formats of these files; a line that is not understood is kept, never an error
    state.py       what all of them say together
    status.py      as a table, and as JSON (status.schema.json)
    prometheus.py  as Prometheus' text format
    top.py         live, with rates and times
    trace.py       the latency of each RPC, taken apart
    check.py       what is wrong with this machine, and what mends it
    report.py      one file for a bug report
    main.py        the command line
"""

VERSION = "0.1"
