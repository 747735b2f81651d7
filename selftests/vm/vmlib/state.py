# SPDX-License-Identifier: GPL-2.0-only
"""Opens, locks and delegations that a client holds while another one wants them.

The guest's program `state` holds them; nfsd's lists and the client's counts tell what became of them.
"""

import time

from .testing import Wrong


def held(vm, script, what, timeout=30):
    """Starts a `state` that holds something; returns its job once it has it."""
    vm.run("rm -f /tmp/stop", 10)
    job = vm.spawn(f"state {script} /tmp/stop", what)
    deadline = time.monotonic() + timeout
    while "ms=" not in job.out:
        if not job.running():
            raise Wrong(f"{vm.name}: {what}: status {job.status}: {job.out}")
        if time.monotonic() > deadline:
            raise Wrong(f"{vm.name}: {what}: not in {timeout} s")
        time.sleep(0.1)
    return job


def let_go(vm, job):
    vm.run("touch /tmp/stop", 10)
    job.wait(30)


def delegations(pair):
    """Lines of nfsd's list of state that are delegations."""
    out = pair.server.run("cat /proc/fs/nfsd/clients/*/states; true", 10)
    return [line for line in out.splitlines() if "type: deleg" in line]


def returned(pair):
    """How many delegations the first client has given back to this mount."""
    out = pair.client.run("grep 'DELEGRETURN:' /proc/self/mountstats", 10)
    return sum(int(line.split()[1]) for line in out.splitlines())


def delegated(pair, name):
    """Opens file @name of the mount for reading at the first client until nfsd gives it a delegation;
    returns the job that holds it."""
    # nfsd gives none before it has tried the way back to the client.
    for _ in range(10):
        job = held(pair.client, f"read /mnt/{name}", "open for reading")
        if delegations(pair):
            return job
        let_go(pair.client, job)
        time.sleep(1)
    raise Wrong("nfsd gave no delegation in 10 opens: " + pair.server.run(
        "grep -h 'callback state' /proc/fs/nfsd/clients/*/info; true", 10).strip())
