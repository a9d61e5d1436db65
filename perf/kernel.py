# SPDX-License-Identifier: BSD-3-Clause
"""Measures how the Linux kernel forwards the same packets between veth pairs, in two network namespaces:

    sender (dpdk-testpmd, same input) == s0 ~ in0 == router == out0 ~ d0 == dropped

The router's veth works like a NIC's driver, with NAPI in a kernel thread of its own (threaded NAPI). The rate of
one CPU is the number of packets that left the router over the CPU time of that thread. The time of making the
packets (in the sender) and of freeing them (behind d0) is not in it, while the node's time includes both."""
import contextlib
import os
import pathlib
import subprocess
import tempfile
import time

import inputs
import processes
from measuring import MOST_WAIT_S
from processes import Failure

SENDER_FRAME_OCTETS = 4096


def run(*command, check=True):
    answer = subprocess.run(command, capture_output=True, text=True)
    if check and answer.returncode:
        raise Failure(f"{' '.join(command)}: {answer.stderr.strip()}")
    return answer.stdout


class Namespaces:
    """Creates a namespace for the hosts (sender and receiver) and one for the router, and deletes both at the end."""

    def __init__(self):
        self.hosts, self.router = (f"ipoib-perf-{os.getpid()}-{role}" for role in ("hosts", "router"))

    def __enter__(self):
        try:
            for space in (self.hosts, self.router):
                run("ip", "netns", "add", space)
                self.inside(space, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                            "net.ipv6.conf.default.disable_ipv6=1")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for space in (self.hosts, self.router):
            run("ip", "netns", "del", space, check=False)

    @staticmethod
    def inside(space, *command):
        return run("ip", "netns", "exec", space, *command)

    def cable(self, host_end, router_end):
        run("ip", "-n", self.hosts, "link", "add", host_end, "mtu", "4096", "type", "veth",
            "peer", "name", router_end, "mtu", "4096", "netns", self.router)


def configure(spaces, scene, folder):
    """Sets up the veth pairs, with the node's addresses and neighbours. A veth with GRO uses NAPI if its peer has no
    segmentation offload. GRO does not merge these UDP packets."""
    spaces.cable("s0", "in0")
    spaces.cable("d0", "out0")
    for space, sender, receiver in ((spaces.hosts, "s0", "d0"), (spaces.router, "out0", "in0")):
        spaces.inside(space, "ethtool", "-K", sender, "tx", "off", "tso", "off", "gso", "off")
        spaces.inside(space, "ethtool", "-K", receiver, "gro", "on")
    lines = [f"link set in0 address {inputs.pcap_mac(0).hex(':')}",
             "address add 192.168.1.1/24 dev in0",
             f"address add {inputs.dotted(inputs.neighbour_address(0, -255))}/14 dev out0",
             "link set in0 up", "link set out0 up"]
    lines += [f"neigh add {inputs.dotted(inputs.neighbour_address(0, index))} "
              f"lladdr 02:00:01:00:{index >> 8:02x}:{index & 255:02x} nud permanent dev out0"
              for index in range(scene.neighbours)]
    batch = folder / "router"
    batch.write_text("\n".join(lines) + "\n")
    spaces.inside(spaces.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    run("ip", "-n", spaces.router, "-batch", str(batch))
    for device in ("s0", "d0"):
        run("ip", "-n", spaces.hosts, "link", "set", device, "up")


def napi_thread(spaces, space, device):
    """Moves the NAPI of a device to a kernel thread and returns its process id."""
    spaces.inside(space, "sh", "-c", f"echo 1 >/sys/class/net/{device}/threaded")
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text().startswith(f"napi/{device}-"):
                found.append(int(entry.name))
    if not found:
        raise Failure(f"{device} got no NAPI thread")
    return max(found)  # Another run may have an older thread of that name.


def counters(pid):
    """Packets received, sent, and dropped in sending, by interface, in the namespace of a process."""
    rows = {}
    for line in pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
        name, values = line.split(":")
        values = [int(value) for value in values.split()]
        rows[name.strip()] = {"rx": values[1], "tx": values[9], "tx_dropped": values[11]}
    return rows


class Sender(processes.Process):
    """A testpmd that reads the input from net_pcap and writes it to s0 without a queueing discipline."""

    def __init__(self, folder, scene, memory, spaces, cpu):
        self.scene = scene
        capture = inputs.write_captures(scene, folder)[0][0]
        super().__init__(
            ["ip", "netns", "exec", spaces.hosts, "dpdk-testpmd",
             *memory.arguments(scene.memory_mib), "--no-pci", f"--file-prefix={folder.name}",
             "--lcores", f"0@{cpu},1@{cpu}", f"--vdev=net_pcap0,rx_pcap={capture},infinite_rx=1",
             f"--vdev=net_af_packet0,iface=s0,qdisc_bypass=1,blocksz={SENDER_FRAME_OCTETS},"
             f"framesz={SENDER_FRAME_OCTETS},framecnt=512",
             "--", "-i", "--forward-mode=io", "--nb-cores=1", f"--total-num-mbufs={scene.mbufs}",
             f"--mbuf-size={SENDER_FRAME_OCTETS + 384}"],
            folder / "sender.log")
        self.tell("start")


class Router:
    """Reads the CPU time of the forwarding thread and the counters of both namespaces, the latter from /proc of a
    process in each."""

    def __init__(self, thread, processes_inside):
        self.thread, self.processes = thread, processes_inside

    def cpu_seconds(self):
        return time.clock_gettime((~self.thread << 3) | 2)  # clock_getcpuclockid(3)

    def reading(self):
        rows = {}
        for pid in self.processes:
            rows |= counters(pid)
        return time.monotonic(), self.cpu_seconds(), rows


def sample(router, seconds):
    """Measures until the forwarding thread had that many seconds of CPU time. `refused_share` is the share of the
    sender's packets that the router did not take. Packets that did not fit into d0's queue, because the receiver
    had no CPU, were forwarded and count."""
    start, cpu_before, before = router.reading()
    while router.cpu_seconds() - cpu_before < seconds:
        if time.monotonic() - start > MOST_WAIT_S:
            raise Failure("the kernel forwards nothing")
        time.sleep(0.01)
    end, cpu_after, after = router.reading()
    change = lambda device, what: after[device][what] - before[device][what]
    came_out, overflow = change("out0", "tx"), change("out0", "tx_dropped")
    taken, refused = change("s0", "tx"), change("s0", "tx_dropped")
    cpu = cpu_after - cpu_before
    return {"packets_per_second": (came_out + overflow) / cpu, "cpu_share": cpu / (end - start),
            "overflow_share": overflow / max(1, came_out + overflow),
            "refused_share": refused / max(1, taken + refused)}


def measure(scene, memory, count, seconds):
    """Returns `count` samples of the kernel's forwarding of a scene's packets from Ethernet to Ethernet."""
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="ipoib-perf-") as name, Namespaces() as spaces:
        folder = pathlib.Path(name)
        configure(spaces, scene, folder)
        forwarding = napi_thread(spaces, spaces.router, "in0")
        receiving = napi_thread(spaces, spaces.hosts, "d0")
        os.sched_setaffinity(forwarding, {cpus[-1]})
        os.sched_setaffinity(receiving, {cpus[0]})
        resident = subprocess.Popen(["ip", "netns", "exec", spaces.router, "sleep", "3600"])
        try:
            with Sender(folder, scene, memory, spaces, cpus[0]) as sender:
                router = Router(forwarding, (resident.pid, sender.process.pid))
                sender.until("packets", lambda: counters(resident.pid).get("out0", {}).get("tx", 0) > 10000)
                return [sample(router, seconds) for _ in range(count)]
        finally:
            resident.terminate()
            resident.wait()
