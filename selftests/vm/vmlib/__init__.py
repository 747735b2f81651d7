# SPDX-License-Identifier: GPL-2.0-only
"""Virtual machines for tests: images, machines, kernel logs, and a lab of two of them with NFS.

image.py    what a guest boots: kernel, initramfs, extra modules
machine.py  one running QEMU: console log, command channel, limits
kernlog.py  which console lines fail a run
lab.py      a server VM and one or two client VMs: RDMA devices, nfsd, Kerberos, mounts, mountstats
debian.py   machines with a whole Debian on a disk: systemd, dpkg, DKMS
workload.py what the demonstration and the interop matrix do over a mount
"""
