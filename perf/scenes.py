# SPDX-License-Identifier: BSD-3-Clause
"""Defines the measurements. A scene is one packet input and one node configuration; a sweep varies one property of a
scene; a plan says which sweeps are measured, and how long."""
import dataclasses

PATHS = {"out": "Ethernet → IPoIB", "in": "IPoIB → Ethernet", "across": "IPoIB → IPoIB"}
FLOWS = 2048
MOST_FLOWS = 65536  # The most different packets of an input. It does not reach more destinations than that.


@dataclasses.dataclass(frozen=True)
class Scene:
    """Packets of one length that one or more workers route from one device to another."""
    path: str = "out"
    ip_octets: int = 64
    neighbours: int = 1024
    routes: int = 0  # Prefixes behind the neighbours. With 0 the neighbours are the destinations.
    groups: int = 0  # Multicast groups. If not 0, they are the destinations.
    burst: int = 32
    workers: int = 1
    shared: bool = False  # The workers share one pair of devices, with a queue for each of them.
    passed: int = 0  # Number, of two frames that a worker reads from a shared cable, for the queue pair of another.

    @property
    def pairs(self):
        """The number of pairs of devices."""
        return 1 if self.shared else self.workers

    @property
    def queues(self):
        """The number of queues of each device."""
        return self.workers // self.pairs

    @property
    def suits_l3fwd(self):
        """True if DPDK's l3fwd can forward the input in the bursts of 32 that are built into it: IPv4 over Ethernet that its
        mempool has room for, with one route."""
        return (self.path == "out" and self.workers == 1 and self.burst == 32 and not self.routes and not self.groups and
                self.flows <= FLOWS and self.ip_octets <= 1500)

    @property
    def ib_mtu(self):
        return 2048 if self.ip_octets <= 2044 else 4096

    @property
    def flows(self):
        destinations = self.groups or self.routes or self.neighbours
        return min(MOST_FLOWS, max(FLOWS, destinations))

    @property
    def mbuf_octets(self):
        """Octets for the headroom and the longest frame of the InfiniBand MTU."""
        return self.ib_mtu + 384

    @property
    def mbufs(self):
        """The number of mbufs. net_pcap keeps its input in mbufs of the same pool. Many workers share the memory of few."""
        return max(16384 * min(self.workers, 2), 4096 * self.workers) + self.flows * self.workers

    @property
    def memory_mib(self):
        pool_mib = self.mbufs * (self.mbuf_octets + 256) >> 20
        return 512 if pool_mib < 192 else 1024


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Scenes that differ in `field`, with a curve for each path."""
    name: str
    title: str
    field: str
    unit: str
    values: tuple
    paths: tuple
    about: str = ""
    base: Scene = Scene()

    def scenes(self):
        for path in self.paths:
            for value in self.values:
                yield dataclasses.replace(self.base, path=path, **{self.field: value})


HEADLINE = Sweep("headline", "64-octet packets", "ip_octets", "octets", (64,), tuple(PATHS))

SWEEPS = (
    Sweep("sizes", "Packet size", "ip_octets", "octets of the IP packet",
          (64, 128, 256, 512, 1024, 1500, 2044, 4092), tuple(PATHS),
          "4,092 octets with an InfiniBand MTU of 4,096, the others with 2,048."),
    Sweep("neighbours", "Neighbours", "neighbours", "neighbours",
          (1, 16, 256, 1024, 4096, 16384, 65536), ("out", "across"),
          "Every packet goes to another neighbour, in an order that the processor cannot predict. "
          "From 4,096 neighbours on the input is larger too: testpmd shows the cost of that."),
    Sweep("routes", "Routes", "routes", "IPv4 prefixes", (1, 1000, 10000, 100000, 1000000), ("out", "in"),
          "Prefixes behind 1,024 neighbours, with lengths as in the Internet's table; the destinations are spread evenly over "
          "them. Up to 65,536 of them get packets. From 10,000 on the input is larger too."),
    Sweep("groups", "Multicast groups", "groups", "groups", (1, 16, 256, 1024), ("out",),
          "Each group is routed from an Ethernet port to a link, with its own MGID and MLID."),
    Sweep("burst", "Burst size", "burst", "packets", (4, 8, 16, 32, 64), ("out", "in"),
          "The limit of packets that are received from a queue at a time (--burst of both programs)."),
    Sweep("workers", "Workers", "workers", "worker lcores", (1, 2), tuple(PATHS),
          "Each worker has its own pair of devices and its own CPU. With two workers on two CPUs the "
          "management lcore, which sleeps unless it gets a request, shares these CPUs."),
    Sweep("shared", "Workers on one pair of devices", "workers", "worker lcores", (1, 2, 4, 8, 16), ("out", "in"),
          "All workers receive from one port and send on one link, or the reverse, each by queues of its own. Workers without a CPU of "
          "their own run by turns; the rate is that per CPU second of each.",
          Scene(shared=True)),
    Sweep("passed", "Frames for the queue pair of another worker", "passed", "of two frames", (1, 2), ("in",),
          "Two workers read a cable, each a receive queue, and pass each other these frames. Without such frames it is the "
          "measurement of two workers above.",
          Scene(workers=2, shared=True)),
)

QUICK_VALUES = {"sizes": (64, 512, 2044), "neighbours": (1, 1024, 65536), "routes": (1, 1000000),
                "groups": (1, 256), "burst": (4, 32), "workers": (1, 2), "shared": (1, 2, 8), "passed": (1,)}
SMOKE_VALUES = {"sizes": (64, 2044), "neighbours": (), "routes": (), "groups": (4,), "burst": (),
                "workers": (2,), "shared": (1, 4), "passed": (1,)}


@dataclasses.dataclass(frozen=True)
class Plan:
    """The extent of a run. A round restarts all programs and measures each `slices` times."""
    name: str
    headline_rounds: int
    sweep_rounds: int
    slices: int
    slice_seconds: float  # CPU time of the worker.
    pings: int
    benchmark_seconds: float
    values: dict

    most_paths: int = len(PATHS)  # Only so many paths of each sweep are measured, the last ones.
    floods: int | None = None     # Only so many kinds of floods are measured; None: all.
    flood_rates: tuple = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)  # Packets of a scan a second.
    long_floods: bool = False     # Floods that --only names have the rates and times of the requirements.

    def sweeps(self, cpus):
        """The sweeps of this plan. Workers with devices of their own have CPUs of their own, too."""
        for sweep in SWEEPS:
            values = self.values.get(sweep.name, sweep.values)
            if sweep.name == "workers":
                values = tuple(value for value in values if value <= cpus)
            if sweep.name == "passed" and cpus < 2:
                values = ()  # Frames for a worker that does not run are lost.
            yield dataclasses.replace(sweep, values=values, paths=sweep.paths[-self.most_paths:])


FULL = Plan("full", 4, 1, 4, 0.25, 2000, 0.1, {}, long_floods=True)
QUICK = Plan("quick", 2, 1, 3, 0.2, 500, 0.02, QUICK_VALUES)
SMOKE = Plan("smoke", 1, 1, 1, 0.02, 20, 0.001, SMOKE_VALUES, 1, floods=2, flood_rates=(1000, 10_000))
