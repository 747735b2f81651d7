# SPDX-License-Identifier: GPL-2.0-only
"""For sphinx-build -b man: `make man`.

rpcordma(4) is made of Documentation/reference.rst, which is written for a wide screen and for other pages beside it. Here
its tables become lists, as man(1) has 80 columns, and the names of other pages become names of files.
"""

import os
import re

from docutils import nodes

project = "rpcordma"
root_doc = "rpcordma.8"
# rpcordma.4.txt is no page of the site, which has the reference itself.
source_suffix = {".rst": "restructuredtext", ".txt": "restructuredtext"}
man_pages = [("rpcordma.8", "rpcordma", "what the RDMA transport of NFS does on this machine, and what is wrong with it",
              "", 8),
             ("rpcordma.4", "rpcordma", "NFS over RDMA: an RPC-over-RDMA transport, client and server", "", 4)]

# Columns of tables: what is left out, the in-tree transport's name of a trace point; and whose headings are said.
LEFT_OUT, SAID = {"in-tree"}, {"range", "default", "takes effect"}


def page(name, rawtext, text, lineno, inliner, options=None, content=None):
    """:doc:`NAME`"""
    return [nodes.emphasis(rawtext, f"{text}.rst")], []


def as_list(table):
    """A definition list with an item for each row of @table: the first cell, and what is in the others."""
    headings = [entry.astext() for entry in next(table.findall(nodes.thead)).findall(nodes.entry)]
    result = nodes.definition_list()
    for row in next(table.findall(nodes.tbody)).children:
        first, *rest = [(heading, entry) for heading, entry in zip(headings, row.children) if heading not in LEFT_OUT]
        text = nodes.paragraph()
        for heading, entry in rest:
            if entry.astext():
                text += nodes.Text(("; " if text.children else "") + (f"{heading} " if heading in SAID else ""))
                text += [child for part in entry.children for child in part.children]
        result += nodes.definition_list_item("", nodes.term("", "", *first[1].children[0].children),
                                             nodes.definition("", text))
    return result


def without_tables(app, doctree):
    for table in list(doctree.findall(nodes.table)):
        table.replace_self(as_list(table))


def as_typed(app, error):
    """Without hyphens, as names are typed as they stand, and so without wide gaps."""
    for page_name, *_ in man_pages if not error else ():
        path = os.path.join(app.outdir, page_name)
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(re.sub(r"(?m)^(\.TH .*\n)", r"\1.nh\n.ad l\n", text, count=1))


def setup(app):
    app.add_role_to_domain("std", "doc", page, override=True)
    app.connect("doctree-read", without_tables)
    app.connect("build-finished", as_typed)
