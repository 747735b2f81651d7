# SPDX-License-Identifier: GPL-2.0-only
"""For Sphinx: pictures that are drawn when the pages are made, from text that is kept in the tree.

    .. figure:: pictures/house.svg          an SVG as it is: this name, so that other readers of the source show it as well
    .. picture:: pictures/read.seq          what happens at two ends (sequence.py)
    .. picture:: data/slope-872365a.txt     a plot of a run's tables (selftests/bench/benchlib/published.py)
        :plot: slope                        which of its plots

Each has `:alt:`, for those who do not see it, and a caption below. A plot's caption ends with the file that it was
drawn from, so that it can be of no other figures than those. A picture is a link to itself, by itself.
"""

import os
import sys

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
TESTS = os.path.join(HERE, "..", "..", "selftests")
sys.path[:0] = [HERE, os.path.join(TESTS, "bench"), os.path.join(TESTS, "vm")]
import sequence  # noqa: E402
from benchlib import published  # noqa: E402


class Picture(SphinxDirective):
    required_arguments = 1
    has_content = True
    option_spec = {"alt": directives.unchanged_required, "plot": directives.unchanged_required}

    def _draw(self, source, path):
        """Writes the SVG of the file @source, as the page names it, to @path."""
        full = os.path.join(self.env.srcdir, source)
        if self.options.get("plot"):
            published.draw(self.options["plot"], full, path)
            return
        with open(full, encoding="utf-8") as f:
            drawn = sequence.draw(f.read(), f"Documentation/{source}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(drawn)

    def run(self):
        source, plot = self.arguments[0], self.options.get("plot")
        if not self.options.get("alt"):
            raise self.error(f"the picture {source} has no :alt:, for those who do not see it")
        if not self.content:
            raise self.error(f"the picture {source} has no caption")
        uri = source
        self.env.note_dependency(source)
        if not source.endswith(".svg"):
            folder = os.path.join(self.env.app.doctreedir, "drawn")
            os.makedirs(folder, exist_ok=True)
            name = f"plot-{plot}" if plot else os.path.splitext(os.path.basename(source))[0]
            path = os.path.join(folder, f"{name}.svg")
            try:
                self._draw(source, path)
            except (OSError, sequence.Wrong, published.Unfit) as error:
                raise self.error(str(error)) from None
            uri = os.path.relpath(path, os.path.dirname(os.path.join(self.env.srcdir, self.env.docname)))
        image = nodes.image(uri=uri, alt=" ".join(self.options["alt"].split()))
        # Where Sphinx puts it, seen from a page of the top folder.
        link = nodes.reference("", "", image, refuri=f"_images/{os.path.basename(uri)}", internal=True)
        figure = nodes.figure("", link, classes=["picture", "plot"] if plot else ["picture"])
        text = " ".join(self.content)
        if plot:
            text += f" Drawn from :download:`{source}`."
        parsed, messages = self.state.inline_text(text, self.lineno)
        figure += nodes.caption(text, "", *parsed)
        return [figure, *messages]


def setup(app):
    app.add_directive("picture", Picture)
    app.add_directive("figure", Picture, override=True)
    return {"parallel_read_safe": True}
