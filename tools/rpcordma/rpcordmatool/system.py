# SPDX-License-Identifier: GPL-2.0-only
"""Files of the kernel and programs that tell more, and what came of each attempt to read them.

Nothing here raises for what a machine lacks or refuses: a source that cannot be read is None, and said to be so in
System.sources. A System may be of a folder with recorded files instead of this machine: then programs are not run,
and what they printed lies in COMMANDS.
"""

import errno
import os
import subprocess

DEBUGFS = "sys/kernel/debug"
OURS = DEBUGFS + "/rpcordma"
STATS = OURS + "/stats"
CONNECTIONS = OURS + "/server/connections"
COUNTERS = OURS + "/server/counters"
MOUNTSTATS = "proc/self/mountstats"
SUNRPC = "sys/kernel/sunrpc/xprt-switches"
# Below a folder of recorded files: what programs printed, by their arguments joined with "_".
COMMANDS = "commands"

READ, ABSENT, DENIED, FAILED = "read", "absent", "denied", "failed"


class System:
    """@root: "/" for this machine, else a folder of recorded files."""

    def __init__(self, root="/"):
        self.root = root
        self.live = os.path.realpath(root) == "/"
        # {path or command: READ, ABSENT, DENIED or FAILED}, in the order of the attempts
        self.sources = {}

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def _outcome(self, error):
        if error.errno in (errno.EPERM, errno.EACCES):
            return DENIED
        # ESRCH, ENODEV: what the file is about goes away at this moment
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV, errno.ENXIO):
            return ABSENT
        return FAILED

    def read(self, name, note=True):
        """The file's text, or None. @note: say in sources what came of it."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as f:
                text = f.read()
            outcome = READ
        except OSError as error:
            text, outcome = None, self._outcome(error)
        if note:
            self.sources["/" + name] = outcome
        return text

    def word(self, name):
        """The file's text without blanks at its ends, or None; not noted."""
        text = self.read(name, note=False)
        return None if text is None else text.strip()

    def names(self, folder):
        """The sorted names in a folder; none when it cannot be read."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def exists(self, name):
        return os.path.lexists(self.path(name))

    def run(self, *command):
        """What a program prints, or None when there is none of that name or it fails. It gets ten seconds."""
        name = " ".join(command)
        if not self.live:
            text = self.read(os.path.join(COMMANDS, "_".join(command).replace("/", "")), note=False)
            self.sources[name] = ABSENT if text is None else READ
            return text
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=10, encoding="utf-8", errors="replace",
                                  env=dict(os.environ, PATH=path, LC_ALL="C"))
        except FileNotFoundError:
            self.sources[name] = ABSENT
            return None
        except PermissionError:
            self.sources[name] = DENIED
            return None
        except (OSError, subprocess.SubprocessError):
            self.sources[name] = FAILED
            return None
        self.sources[name] = READ if done.returncode == 0 else FAILED
        return done.stdout if done.returncode == 0 else None

    def release(self):
        """The kernel's release, or None."""
        return self.word("proc/sys/kernel/osrelease")

    def lockdown(self):
        """"none", "integrity" or "confidentiality"; None where the kernel does not say."""
        text = self.word("sys/kernel/security/lockdown") or ""
        for word in text.split():
            if word.startswith("[") and word.endswith("]"):
                return word[1:-1]
        return None

    def is_root(self):
        return not self.live or os.geteuid() == 0
