# SPDX-License-Identifier: BSD-3-Clause
"""Starts and controls the measured programs, dpdk-testpmd, l3fwd and dpdk-ipoib, on the same devices, with the same input,
lcores and memory. A program is stopped (SIGSTOP) while another one is measured."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import inputs

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 180  # A node with a million routes takes long to start on a busy machine.
SETTLE_TIMEOUT_S = 20


class Failure(Exception):
    pass


def end_in_order():
    """Makes SIGTERM and SIGHUP end the program like Ctrl-C: after it ended its processes and undid its changes."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))


def eal_arguments(scene, captures, memory, prefix, alone=False):
    """EAL arguments of a scene. Each worker is bound to one of the last CPUs; the management lcore runs on the other
    CPUs, or on all if the workers use all. `alone`: the main lcore is the only worker."""
    cpus = sorted(os.sched_getaffinity(0))
    workers = [cpus[-1 - index % len(cpus)] for index in range(scene.workers)]
    rest = [cpu for cpu in cpus if cpu not in workers] or cpus
    lcores = [] if alone else [f"0@({','.join(map(str, rest))})"]
    lcores += [f"{len(lcores) + index}@{cpu}" for index, cpu in enumerate(workers)]
    devices = []
    for pair, files in enumerate(captures):
        rx = "".join(f",rx_pcap={file}" for file in files)
        devices += [f"--vdev=net_pcap{pair}{rx},infinite_rx=1",
                    f"--vdev=net_null{pair},no-rx=1"]
    return [*memory.arguments(scene.memory_mib), "--no-pci", f"--file-prefix={prefix}",
            "--lcores", ",".join(lcores), *devices]


def buffer_arguments(scene):
    return [f"--total-num-mbufs={scene.mbufs}", f"--mbuf-size={scene.mbuf_octets}",
            f"--burst={scene.burst}"]


class Process:
    """A program that writes its output to a file and is ended by its process id."""

    WORKER = "worker"  # Part of the names of the workers' threads, and of no other.

    def __init__(self, command, log):
        self.log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output,
                                            stderr=subprocess.STDOUT)

    def __enter__(self):
        try:
            self.prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def prepare(self):
        """Waits until the program can be measured."""

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.terminate()
        self.resume()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def until(self, what, condition):
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            if self.process.poll() is not None:
                raise Failure(f"ended while waiting for {what}:\n{self.tail()}")
            time.sleep(0.002)
        raise Failure(f"no {what} within {START_TIMEOUT_S} s:\n{self.tail()}")

    def worker_seconds(self):
        """CPU time of the workers so far, to the microsecond: that of the process without its other threads. The
        scheduler's figure of a running thread is up to a tick old; that of the other threads is exact, because they
        sleep."""
        clock = (~self.process.pid << 3) | 2  # clock_getcpuclockid(3)
        others = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            if self.WORKER not in (task / "comm").read_text():
                others += int((task / "schedstat").read_text().split()[0])
        return time.clock_gettime(clock) - others / 1e9

    def tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])


class Testpmd(Process):
    """A dpdk-testpmd that forwards from net_pcap to net_null. Mode `io` does not read the packets; `5tswap` swaps the
    addresses and ports in their headers."""

    def __init__(self, folder, scene, memory, mode):
        self.scene = scene
        super().__init__(
            ["stdbuf", "-oL", "dpdk-testpmd",
             *eal_arguments(scene, inputs.write_captures(scene, folder), memory, folder.name),
             "--", "-i", f"--forward-mode={mode}", f"--nb-cores={scene.workers}",
             *(f"--{queue}={scene.queues}" for queue in ("rxq", "txq")),
             *buffer_arguments(scene)], folder / "testpmd.log")
        self.outputs = [2 * pair + 1 for pair in range(scene.pairs)]
        self.asked = 0
        self.tell("start")

    def sent(self):
        for port in self.outputs:
            self.tell(f"show port stats {port}")
        self.asked += len(self.outputs)
        counts = self.until("statistics", self.counts)
        return sum(map(int, counts[-len(self.outputs):]))

    def counts(self):
        found = re.findall(r"TX-packets: (\d+)", self.log.read_text(errors="replace"))
        return found if len(found) >= self.asked else None

    def lost(self):
        return 0  # net_null takes everything.


class L3fwd(Process):
    """DPDK's l3fwd, which routes from net_pcap to net_null by a prefix of its LPM table. A main lcore without queues would
    not sleep, so it is the worker. It has no counters, so those of net_null are read, through the telemetry socket."""

    WORKER = "l3fwd"

    def __init__(self, folder, scene, memory, program):
        self.scene = scene
        self.client = None
        self.socket = pathlib.Path("/run/dpdk") / folder.name / "dpdk_telemetry.v2"
        rules = {"ipv4": f"R{inputs.dotted(inputs.neighbour_address(0, -256))}/14 1", "ipv6": "R2001:200::/64 1"}
        for family, rule in rules.items():
            (folder / family).write_text(rule + "\n")
        # net_pcap does not tell the type of a packet.
        super().__init__(
            ["stdbuf", "-oL", program,
             *eal_arguments(scene, inputs.write_captures(scene, folder), memory, folder.name, alone=True),
             "--", "-p", "0x3", "-P", "--config=(0,0,0)", "--parse-ptype", "--lookup=lpm",
             *(f"--rule_{family}={folder / family}" for family in rules)], folder / "l3fwd.log")

    def prepare(self):
        self.client = self.until("telemetry", self.connected)

    def __exit__(self, *_):
        super().__exit__()
        if self.client:
            self.client.close()

    def connected(self):
        if "entering main loop" not in self.log.read_text(errors="replace"):
            return None
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.connect(str(self.socket))
        client.recv(4096)  # its greeting
        return client

    def sent(self):
        self.client.send(b"/ethdev/stats,1")
        return json.loads(self.client.recv(65536))["/ethdev/stats"]["opackets"]

    def lost(self):
        return 0  # net_null takes everything.


class Node(Process):
    """A dpdk-ipoib with a permanent client of its CLI socket, which reads its counters."""

    def __init__(self, folder, scene, memory, program, icrc, more=()):
        self.scene = scene
        self.outputs = [inputs.output_name(scene, pair) for pair in range(scene.pairs)]
        self.question = "show port json" if scene.path == "in" else "show link json"
        self.socket = folder / "cli"
        self.client = None
        config = folder / "node.toml"
        config.write_text(inputs.configuration(scene, icrc))
        super().__init__(
            [program, *eal_arguments(scene, inputs.write_captures(scene, folder), memory, folder.name),
             "--", "--config", str(config), "--cli-socket", str(self.socket), *buffer_arguments(scene),
             *more, "-a"], folder / "node.log")

    def prepare(self):
        self.until("answer", self.socket.exists)
        self.client = subprocess.Popen(
            [sys.executable, "-u", ROOT / "config/ipoib-cli", self.socket], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.until("link", lambda: all(link["state"] == "up"
                                       for link in self.ask("show link json")))

    def __exit__(self, *_):
        super().__exit__()
        if self.client:
            self.client.stdin.close()
            self.client.wait()
            self.client.stdout.close()

    def ask(self, command):
        self.client.stdin.write(command + "\n")
        self.client.stdin.flush()
        answer = self.client.stdout.readline()
        try:
            return json.loads(answer)
        except ValueError:
            raise Failure(f"{command}: {answer or 'no answer'}\n{self.tail()}") from None

    def sent(self):
        rows = self.ask(self.question)
        return sum(row["tx_packets"] for row in rows if row["name"] in self.outputs)

    def lost(self):
        return sum(row["packets"] for row in self.ask("show drops json"))


def settle(process):
    """Waits until packets flow and none is lost any more, because every neighbour and group is known. After
    SETTLE_TIMEOUT_S it returns in any case."""
    first = process.sent()
    process.until("packets", lambda: process.sent() > first + 10000)
    end = time.monotonic() + SETTLE_TIMEOUT_S
    lost = process.lost()
    while time.monotonic() < end:
        sent = process.sent()
        process.until("packets", lambda: process.sent() > sent + 2 * process.scene.flows)
        before, lost = lost, process.lost()
        if lost == before:
            return
