# SPDX-License-Identifier: GPL-2.0-only
"""Machines as they were after boot, in files: under TCG a machine that begins there is ready in a tenth of
the time.

A file is good for one kind of machine: the same QEMU, options that the guest can see, kernel and initramfs.
The first machine of a kind boots and leaves its state here; QEMU's migration writes and reads it. The guest
gets another time of day (machine.py) and, by vmgenid, other random numbers. VM_SNAPSHOTS=0: all boot.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time

# For a machine of some GiB, most of them zero.
LIMIT = 60


class Monitor:
    """QEMU's, on @sock."""

    def __init__(self, sock):
        self._stream = sock.makefile("rwb")
        self._ready = False

    def command(self, name, **arguments):
        """Returns the result; OSError when there is none, or an error."""
        if not self._ready:
            self._ready = True
            self._stream.readline()  # the greeting
            self.command("qmp_capabilities")
        self._stream.write(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        self._stream.flush()
        while line := self._stream.readline():
            said = json.loads(line)
            if "return" in said:
                return said["return"]
            if "error" in said:
                raise OSError(f"{name}: {said['error'].get('desc')}")
        raise OSError(f"{name}: QEMU is gone")


class Snapshot:
    """That of machines which QEMU gives @args to make, and @files to boot.

    @folder  where all of them are kept
    """

    def __init__(self, folder, args, files):
        def digest(*what):
            return hashlib.sha256(repr(what).encode()).hexdigest()[:24]

        files = [*files, shutil.which(args[0]) or args[0]]
        states = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns)
                  for path in files if os.path.exists(path)]
        # One of each kind is kept: that of the newest files.
        self._folder = os.path.join(folder, digest(args))
        self.path = os.path.join(self._folder, digest(states))

    def exists(self):
        return os.path.exists(self.path)

    def forget(self):
        """It was of no use."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def resume(self, monitor):
        """The machine behind @monitor, which begins with it, goes on: it was saved while it stood still."""
        deadline = time.monotonic() + LIMIT
        while monitor.command("query-status")["status"] == "inmigrate":
            if time.monotonic() > deadline:
                raise OSError(f"not read in {LIMIT} s")
            time.sleep(0.02)
        monitor.command("cont")

    def save(self, monitor):
        """Of the machine behind @monitor, which goes on afterwards. That it cannot be had is no error."""
        os.makedirs(os.path.dirname(self._folder), exist_ok=True)
        with open(self._folder + ".lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Another one of its kind is at it.
                return
            self.forget()
            os.makedirs(self._folder)
            self._save(monitor)

    def _save(self, monitor):
        new = self.path + ".new"
        monitor.command("stop")
        try:
            monitor.command("migrate-set-parameters", **{"max-bandwidth": 1 << 34})
            monitor.command("migrate", uri=f"exec:cat > '{new}'")
            deadline = time.monotonic() + LIMIT
            while (status := monitor.command("query-migrate").get("status")) not in ("completed", "failed"):
                if time.monotonic() > deadline:
                    monitor.command("migrate_cancel")
                time.sleep(0.02)
            if status == "completed":
                os.rename(new, self.path)
        except OSError as error:
            print(f"vm: no snapshot of this machine: {error}", flush=True)
        finally:
            monitor.command("cont")
