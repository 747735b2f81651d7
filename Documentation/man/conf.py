# SPDX-License-Identifier: GPL-2.0-only
"""For sphinx-build -b man: `make man`."""

project = "rpcordma"
root_doc = "rpcordma.8"
man_pages = [("rpcordma.8", "rpcordma", "what the RDMA transport of NFS does on this machine, and what is wrong with it",
              "", 8)]
