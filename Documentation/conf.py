# SPDX-License-Identifier: GPL-2.0-only
"""For sphinx-build: `make docs`. The man pages have a configuration of their own, in man/."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "site"))

project = "rpcordma"
root_doc = "index"
extensions = ["pictures"]
# Commands and tables of figures, which are in no language that Pygments knows.
highlight_language = "none"
# Debian's python3-sphinx-rtd-theme: whole without a network, and with a menu on a narrow screen.
html_theme = "sphinx_rtd_theme"
html_theme_options = {"navigation_depth": 2, "prev_next_buttons_location": "bottom"}
html_title = "rpcordma"
html_static_path = ["site/site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
# Quotes, but no dashes: --json is an option.
smartquotes_action = "q"
