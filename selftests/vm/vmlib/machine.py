# SPDX-License-Identifier: GPL-2.0-only
"""One running test VM: QEMU under TCG, its console log, and scripts run in it from the host.

Every wait has a limit and says what it waited for. What the scripts do is the callers' affair.
"""

import os
import select
import signal
import socket
import subprocess
import threading
import time

from . import kernlog, snapshot


# All limits are multiplied by it: more than 1 where the host has other things to do.
PATIENCE = float(os.environ.get("VM_PATIENCE", 1))


# Without CMPXCHG16B, which QEMU 7.2 emulates with what is left in its registers for flags: when an interrupt comes
# right behind it, SLUB goes on with a pointer for EFLAGS, and the kernel ends in a double fault.
CPU = "max,-cx16"

# A machine whose clock counts instructions. A string instruction counts for each time that it goes round: without ERMS
# and FSRM the kernel copies eight bytes in each and not one.
COUNTED = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01T00:00:00,clock=vm"]
COUNTED_CPU = CPU + ",-erms,-fsrm,-rdrand,-rdseed"


class Processor:
    """How QEMU is called for guests of an architecture. @snapshots: whether it has what a machine needs that goes on
    from a snapshot (vmgenid)."""

    def __init__(self, program, package, machine, cpu, console, snapshots, cmdline=""):
        self.program, self.package, self.machine, self.cpu = program, package, machine, cpu
        self.console, self.snapshots, self.cmdline = console, snapshots, cmdline


PROCESSORS = {
    # tsc=reliable: on a busy host the clock watchdog finds fault with the emulated TSC and makes the kernel patch its
    # text, which TCG's vCPUs do not always survive.
    "amd64": Processor("qemu-system-x86_64", "qemu-system-x86", "q35", CPU, "ttyS0", True, "tsc=reliable"),
    # Signing return addresses as the architecture has it takes an emulator half of its time.
    "arm64": Processor("qemu-system-aarch64", "qemu-system-arm", "virt,gic-version=3", "max,pauth-impdef=on", "ttyAMA0",
                       False),
}


def emulators_fault(vms):
    """Whether all that the kernels of @vms, which have stopped, complained of is a fault of QEMU's, in which our
    module has no part (kernlog.py)."""
    complaining = [vm.scanner for vm in vms if vm.complaints]
    return bool(complaining) and all(scanner.emulators_fault for scanner in complaining)


# A starved host disturbs how the kernel measures the TSC, against two clocks. It says so when they
# differ, and believes the worse one: its time then runs many times too fast, and so do all timeouts.
WRONG_CLOCK = "tsc: Using PIT calibration value"


class VmError(Exception):
    """A VM did not do what was asked. The text names the machine and what was waited for."""


class Timeout(VmError):
    """A limit passed. Blocked and all tasks were dumped into the console log."""


class Failed(VmError):
    """A script ended with a status that was not allowed."""


class Job:
    """A script that runs in a VM. `out` grows while it runs; `status` is None until it ends."""

    def __init__(self, vm, number, script, what):
        self.vm, self.number, self.script, self.what = vm, number, script, what
        self.status = None
        self._out = bytearray()
        self._ended = threading.Event()

    @property
    def out(self):
        return self._out.decode(errors="replace")

    def wait(self, timeout, check=True):
        """Waits for the end; returns the output. Raises Timeout, or Failed unless check=False."""
        timeout *= PATIENCE
        deadline = time.monotonic() + timeout
        while not self._ended.wait(min(0.5, max(0.0, deadline - time.monotonic()))):
            self.vm.must_live(self.what)
            if time.monotonic() >= deadline:
                for vm in self.vm.company:
                    if vm.alive():
                        vm.dump_tasks()
                self.kill()
                raise Timeout(f"{self.vm.name}: {self.what}: not done after {timeout} s"
                              f"{self._tail()}")
        if check and self.status:
            raise Failed(f"{self.vm.name}: {self.what}: exit status {self.status}{self._tail()}")
        return self.out

    def running(self):
        return not self._ended.is_set()

    def kill(self):
        """SIGKILL to the script and its children; does not wait."""
        self.vm._send(f"K {self.number}\n".encode())

    def _tail(self):
        lines = self.out.strip().splitlines()[-12:]
        return "".join(f"\n    | {line}" for line in lines)


class VM:
    """A virtual machine.

    @name       role of the machine in its test; also its host name
    @kernel     image.Kernel
    @initramfs  path
    @log        path of the console log, which also gets every script and its output
    @nets       list of Cable, one network interface (eth0, eth1, ...) each
    @memory     MiB
    @capture    None, or the path of a pcap file that gets the traffic of eth0
    @share      None, or a directory that the guest may mount for reading: 9p, tag "host"
    @snapshots  None, or the directory of snapshots that save it the boot
    @warm       script of things that every machine needs; its effect is in the snapshot
    @plugin     None, or (path of a plugin of QEMU's, path of the socket that it serves)
    @disk       None, or the path of a disk (/dev/vda), which has what was written to it also when the machine is gone
    @cpu        its model, and what it lacks, or None for what all have
    @nodes      NUMA nodes, of which each has its part of the memory, and of the CPUs
    @turns      its CPUs take turns in one thread of the host's, so that a plugin's counters lose nothing
    @counted    its time is the instructions that its one CPU executes, one a nanosecond (COUNTED), and not the host's.
                Where it has nothing to do it goes to the next timer at once: a machine that waits for a script is soon
                hours older, so all that is to be of one time has to be one script
    """

    def __init__(self, name, kernel, initramfs, log, nets=(), memory=1024, cpus=2, capture=None,
                 cmdline="", share=None, snapshots=None, warm="", plugin=None, disk=None, cpu=None, counted=False,
                 nodes=1, turns=False):
        self.name = name
        self.processor = PROCESSORS[kernel.arch]
        if not self.processor.snapshots:
            snapshots = None
        self.plugin = plugin
        self.scanner = kernlog.Scanner()
        self.started = time.monotonic()
        self._jobs = {}
        self._next = 1
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._dumped = threading.Event()
        self._wrong_clock = False
        os.makedirs(os.path.dirname(log), exist_ok=True)
        self._log = open(log, "w", buffering=1, errors="replace")
        self.log_path = log
        self.capture = capture
        # The machines that what is waited for may depend on; all of them tell what they are doing when it does
        # not come.
        self.company = [self]

        self._agent, agent = socket.socketpair()
        self._monitor, monitor = socket.socketpair()
        args = [self.processor.program, "-name", name, "-M", self.processor.machine,
                *(COUNTED if counted else ["-accel", f"tcg,thread={'single' if turns else 'multi'}"]), "-cpu", cpu or self.processor.cpu,
                "-smp", f"{cpus},sockets={nodes}" if nodes > 1 else str(cpus), "-m", str(memory), "-nodefaults",
                "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
                # Random numbers, and fresh ones for a machine that goes on from a snapshot: no two runs are alike then.
                *([] if counted else ["-device", "virtio-rng-pci"]),
                *([] if counted or not self.processor.snapshots else ["-device", "vmgenid,guid=auto"]),
                "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=agent",
                "-kernel", kernel.vmlinuz, "-initrd", initramfs, "-append",
                f"console={self.processor.console} panic=-1 oops=panic loglevel=7 random.trust_cpu=on "
                f"{self.processor.cmdline} ipv6.autoconf=0 role={name} {cmdline}"]
        for node in range(nodes if nodes > 1 else 0):
            first, last = node * cpus // nodes, (node + 1) * cpus // nodes - 1
            args += ["-object", f"memory-backend-ram,id=m{node},size={memory // nodes}M",
                     "-numa", f"node,nodeid={node},cpus={first}-{last},memdev=m{node}"]
        # What the guest does not see.
        wires = ["-chardev", f"socket,id=agent,fd={agent.fileno()}",
                 "-chardev", f"socket,id=monitor,fd={monitor.fileno()}",
                 "-mon", "chardev=monitor,mode=control"]
        for i, net in enumerate(nets):
            mac = f"52:54:00:00:{i:02x}:{sum(name.encode()) & 0xff:02x}"
            wires += ["-netdev", f"stream,id=n{i},{net.plug()}"]
            args += ["-device", f"virtio-net-pci,netdev=n{i},mac={mac},romfile="]
        if share:
            args += ["-virtfs", f"local,path={share},mount_tag=host,security_model=none,"
                                f"readonly=on,multidevs=remap"]
        if disk:
            wires += ["-drive", f"if=none,id=disk0,format=raw,file={disk}"]
            args += ["-device", "virtio-blk-pci,drive=disk0"]
        if capture and nets:
            wires += ["-object", f"filter-dump,id=dump0,netdev=n0,file={capture}"]
        if plugin:
            wires += ["-plugin", f"file={plugin[0]},socket={plugin[1]}"]
        self._snapshot = snapshots and snapshot.Snapshot(snapshots, [*args, warm],
                                                             (kernel.vmlinuz, initramfs))
        self._warm = warm
        self._resumed = bool(self._snapshot) and self._snapshot.exists()
        if self._resumed:
            wires += ["-incoming", f"exec:cat '{self._snapshot.path}'"]
        self._log.write(f"# {' '.join(args + wires)}\n")
        try:
            self._qemu = subprocess.Popen(args + wires, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT,
                                          pass_fds=[agent.fileno(), monitor.fileno()])
        except FileNotFoundError:
            raise VmError(f"{self.processor.program} is not installed: apt-get install {self.processor.package}") from None
        agent.close()
        monitor.close()
        self.monitor = snapshot.Monitor(self._monitor)
        self._threads = [threading.Thread(target=self._read_console, daemon=True),
                         threading.Thread(target=self._read_agent, daemon=True)]
        for thread in self._threads:
            thread.start()

    # Logs

    def _note(self, mark, text):
        stamp = time.monotonic() - self.started
        with self._lock:
            for line in text.splitlines():
                self._log.write(f"[{stamp:8.3f}] {mark} {line}\n")

    def _read_console(self):
        pending = b""
        while True:
            data = self._qemu.stdout.read1(65536)
            if not data:
                self.scanner.finish()
                break
            pending += data
            *lines, pending = pending.split(b"\n")
            for line in lines:
                text = line.decode(errors="replace").rstrip("\r")
                self.scanner.feed(text)
                self._note("K", text)
                self._wrong_clock |= WRONG_CLOCK in text
                if kernlog.DUMP_END in text:
                    self._dumped.set()
        if pending:
            text = pending.decode(errors="replace")
            self.scanner.feed(text)
            self._note("K", text)

    @property
    def complaints(self):
        """Console lines so far that fail a run."""
        return self.scanner.complaints

    # The agent

    def _send(self, data):
        try:
            self._agent.sendall(data)
        except OSError:
            pass  # the machine is gone; must_live() tells

    def _read_agent(self):
        stream = self._agent.makefile("rb")
        while True:
            try:
                line = stream.readline()
            except OSError:
                return
            if not line:
                return
            words = line.split()
            if words[0] == b"H":
                self._ready.set()
            elif words[0] == b"O":
                data = stream.read(int(words[2]))
                job = self._jobs.get(int(words[1]))
                if job:
                    job._out += data
                self._note(f"{int(words[1]):3d}|", data.decode(errors="replace"))
            elif words[0] == b"X":
                job = self._jobs.get(int(words[1]))
                self._note(f"{int(words[1]):3d}=", f"exit {int(words[2])}")
                if job:
                    job.status = int(words[2])
                    job._ended.set()

    def must_live(self, what):
        """Raises VmError when QEMU has ended."""
        if not self.alive():
            self._threads[0].join(2)
            last = self.complaints[-3:]
            raise VmError(f"{self.name}: the machine went down while: {what} (log: "
                          f"{self.log_path})" + "".join(f"\n    | {line}" for line in last))

    def wait_boot(self, timeout=60):
        """Waits until the machine takes scripts."""
        if self._resumed:
            try:
                self._snapshot.resume(self.monitor)
                self.run(f"date -s @{time.time():.0f} > /dev/null", timeout, "go on from its snapshot")
            except (VmError, OSError) as error:
                self._snapshot.forget()
                raise VmError(f"{self.name}: {error}") from None
            return
        timeout *= PATIENCE
        deadline = time.monotonic() + timeout
        while not self._ready.wait(0.2):
            self.must_live("boot")
            if time.monotonic() > deadline:
                raise Timeout(f"{self.name}: did not boot in {timeout} s (log: {self.log_path})")
        if self._wrong_clock:
            raise VmError(f"{self.name}: its clock runs at a wrong speed: this host is too busy (log: "
                          f"{self.log_path})")
        if self._snapshot and not self.complaints:
            if self._warm:
                self.run(self._warm, timeout, "what every machine needs")
            try:
                self._snapshot.save(self.monitor)
            except OSError as error:
                raise VmError(f"{self.name}: does not go on after its snapshot: {error} (log: "
                              f"{self.log_path})") from None

    def spawn(self, script, what=None):
        """Starts a shell script (with lib.sh at hand) and returns its Job."""
        self.must_live(what or script)
        job = Job(self, self._next, script, what or script.strip().splitlines()[0])
        self._next += 1
        self._jobs[job.number] = job
        self._note(f"{job.number:3d}$", script)
        body = f". /lib/lib.sh\n{script}\n".encode()
        self._send(f"R {job.number} {len(body)}\n".encode() + body)
        return job

    def run(self, script, timeout=30, what=None, check=True):
        """Runs a shell script to its end; returns its output."""
        return self.spawn(script, what).wait(timeout, check)

    def ok(self, script, timeout=30, what=None):
        """Whether a shell script ends with status 0."""
        job = self.spawn(script, what)
        job.wait(timeout, check=False)
        return job.status == 0

    def until(self, script, timeout, what, pause=0.2):
        """Repeats a script until it succeeds; returns its output."""
        deadline = time.monotonic() + timeout * PATIENCE
        while True:
            job = self.spawn(script, what)
            job.wait(max(5, deadline - time.monotonic() + 5), check=False)
            if job.status == 0:
                return job.out
            if time.monotonic() > deadline:
                self.dump_tasks()
                raise Timeout(f"{self.name}: waited {timeout} s for: {what}{job._tail()}")
            time.sleep(pause)

    def page_size(self):
        """Bytes of a page of its kernel."""
        return 1024 * int(self.run("awk '$1 == \"KernelPageSize:\" { print $2; exit }' /proc/self/smaps", 10))

    def alive(self):
        return self._qemu.poll() is None

    def dump_tasks(self):
        """Puts the stacks of blocked and of all tasks into the console log, our module's and rxe's counters, RPC tasks that
        have not ended, and the queue pairs with their states."""
        self._dumped.clear()
        job = self.spawn(f"echo '{kernlog.DUMP_BEGIN}' > /dev/kmsg; echo w > /proc/sysrq-trigger; "
                         f"echo t > /proc/sysrq-trigger; echo '{kernlog.DUMP_END}' > /dev/kmsg; "
                         "grep . /sys/kernel/debug/rpcordma/stats /sys/kernel/debug/rpcordma/server/co* "
                         "/sys/class/infiniband/*/ports/1/hw_counters/* /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks 2> /dev/null; "
                         "rdma resource show qp; true",
                         "dump of all tasks")
        if not job._ended.wait(20) or not self._dumped.wait(20):
            self._note("!", "the dump of all tasks did not end in 20 s")

    def cpu_seconds(self):
        """CPU that the machine has taken of the host so far, its devices included. The guest's own count has
        what others take of its CPUs in it."""
        with open(f"/proc/{self._qemu.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pause(self):
        """Stops the whole machine in mid-air, like a peer that has hung; resume() goes on."""
        os.kill(self._qemu.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self._qemu.pid, signal.SIGCONT)

    def stop(self):
        """Ends the machine at once and waits until its log is whole."""
        if self._qemu.poll() is None:
            self._qemu.kill()
        self._qemu.wait()
        self._threads[0].join(5)
        self._agent.close()
        self._monitor.close()
        self._log.close()

    def console(self):
        """Joins the user's terminal to a shell in the machine, until the shell ends."""
        import sys
        import termios
        import tty
        tty_path = f"/dev/{self.processor.console}"
        self.spawn(f"setsid cttyhack sh < {tty_path} > {tty_path} 2>&1; echo 'vm: shell ended' > {tty_path}",
                   "interactive shell")
        job = self._jobs[self._next - 1]
        saved = termios.tcgetattr(0)
        offset = os.path.getsize(self.log_path)
        try:
            tty.setraw(0)
            while job.running() and self._qemu.poll() is None:
                ready, _, _ = select.select([0], [], [], 0.05)
                if ready:
                    self._qemu.stdin.write(os.read(0, 1024))
                    self._qemu.stdin.flush()
                with open(self.log_path, errors="replace") as f:
                    f.seek(offset)
                    text = f.read()
                    offset = f.tell()
                for line in text.splitlines():
                    sys.stdout.write(line.split("] ", 1)[-1][2:] + "\r\n")
                sys.stdout.flush()
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, saved)


class Cable:
    """A network cable for two machines, a socket at @path. The machine that starts first keeps its
    end; the other one can go and a new one take its place."""

    def __init__(self, path):
        self.path = path
        self._kept = False

    def plug(self):
        """QEMU's options for the end of the machine that starts now."""
        if self._kept:
            deadline = time.monotonic() + 20
            while not os.path.exists(self.path):
                if time.monotonic() > deadline:
                    raise VmError(f"{self.path}: the first machine did not make it in 20 s")
                time.sleep(0.02)
        server = "off" if self._kept else "on"
        self._kept = True
        return f"server={server},addr.type=unix,addr.path={self.path}"
