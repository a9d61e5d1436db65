#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the seeds of the fuzz target `node` into a folder: python3 node_seeds.py corpus/node

The steps are those of node_fuzz.cc; addresses are places in its kAddresses.
"""
import pathlib
import sys

(ETHERNET, IP, DATAGRAM, MAD, AGAIN, TIME, DEADLINE, CABLE, DEVICE, REQUEST, HOSTS, WORKER, TURN,
 HOLD, LINE) = range(15)
NODE1 = 0x80  # The bit of a step that selects node 1.
IN_IB1 = 0x80
V6, BY_IB0, BY_IB1, BY_STRANGER, FRAGMENT, EXACT, BURST = 1, 2, 4, 6, 8, 0x10, 0x40
HOST1, HOST2, IB_A, IB_B, ETH_A, ETH_B, IB1_A, IB1_B = range(8)
ABSENT1, ABSENT2, IB_ABSENT, IB1_ABSENT, NO_ROUTE, BLACKHOLE, ECMP, ECMP2, DEAD_GATEWAY = range(8, 17)
GROUP, GROUP2, ALL_HOSTS, ALL_ROUTERS = range(17, 21)
UNSPECIFIED = 26
ICMP, IGMP, TCP, UDP, ICMP6 = 1, 2, 6, 17, 58


def packet(source, to, protocol, hops=64, options=0, units=1, head=(), flags=0, node=0):
    """An IP packet; `units` of 8 octets behind its header, which begin with `head`."""
    word = [flags >> 8, flags & 255] if options & FRAGMENT else []
    return [IP | node, options, source, to, protocol, hops, *word, units, len(head), *head]


def ping(source, to, options=0, **more):
    """An echo request."""
    return packet(source, to, ICMP6 if options & V6 else ICMP, options=options,
                  head=[128 if options & V6 else 8, 0, 0, 0, 0, 1, 0, 1], **more)


def both(name, make):
    """IPv4 and IPv6."""
    return {name + "4": make(0), name + "6": make(V6)}


def mad(lid, mgmt_class, method, attribute, octets=(), node=0):
    """Class, method and attribute of the MAD's header; octets from the RMPP header on. `lid` | IN_IB1: in the partition
    of ib1."""
    return [MAD | node, lid, mgmt_class, method, attribute, len(octets), *octets]


def wait(power):
    """2^power ns pass."""
    return [TIME, power]


def line(text, node=0):
    """A line of the CLI."""
    return [LINE | node, len(text), *text.encode()]


def v6_bit(v):
    """The bit of a request's kind that selects IPv6."""
    return 0x40 if v else 0


SECONDS3 = wait(31) + wait(30)
WORK = [WORKER, 0, WORKER, 1, TURN]
# Both nodes know the hosts and each other, and are connected.
FORWARD = ping(HOST1, HOST2) + [TURN] * 12 + ping(HOST1, HOST2) + [TURN] * 4
TCP_HEAD = [1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]

SEEDS = {
    **both("own_source", lambda v: ping(ETH_A, ETH_A, v)),
    **both("other_own_source", lambda v: ping(IB_A, ETH_A, v)),
    **both("own_source_by_ib", lambda v: ping(IB_A, IB_A, v | BY_IB0)),
    **both("own_source_by_stranger", lambda v: ping(ETH_A, IB_A, v | BY_STRANGER)),
    **both("own_source_last_hop", lambda v: ping(ETH_A, HOST2, v, hops=1)),
    **both("own_source_no_route", lambda v: ping(IB_A, NO_ROUTE, v)),
    **both("last_hop", lambda v: ping(HOST1, HOST2, v, hops=1)),
    **both("no_route", lambda v: ping(HOST1, NO_ROUTE, v)),
    **both("no_route_from_absent", lambda v: ping(ABSENT1, NO_ROUTE, v) + SECONDS3 + [DEADLINE] * 4),
    **both("ping_from_absent", lambda v: ping(ABSENT1, ETH_A, v) + SECONDS3 + [DEADLINE] * 6),
    **both("ping_from_absent_by_ib", lambda v: ping(IB_ABSENT, IB_A, v | BY_IB0) + [DEADLINE] * 6),
    **both("ping_to_absent", lambda v: ping(HOST1, IB_ABSENT, v) + [DEADLINE] * 8),
    **both("ping_to_dead_gateway", lambda v: ping(HOST1, DEAD_GATEWAY, v) + [DEADLINE] * 8),
    **both("held_reply", lambda v: [HOSTS, 0] + ping(HOST1, ETH_A, v) + [DEADLINE, HOSTS, 1]
           + [DEADLINE] * 3),
    **both("burst_to_absent", lambda v: ping(HOST1, IB_ABSENT, v | BURST) + [DEADLINE] * 6),
    **both("forward", lambda v: ping(HOST1, HOST2, v) + [TURN] * 12 + ping(HOST1, HOST2, v | BURST)
           + [TURN] * 6),
    **both("forward_long", lambda v: ping(HOST1, HOST2, v) + [TURN] * 12
           + packet(HOST1, HOST2, UDP, options=v | BURST, units=180) + [TURN] * 6),
    **both("tcp", lambda v: ping(HOST1, HOST2, v) + [TURN] * 12
           + packet(HOST1, HOST2, TCP, options=v | BURST, units=100, head=TCP_HEAD) + [TURN] * 6),
    **both("multicast", lambda v: packet(HOST1, GROUP, UDP, options=v, units=4) + [TURN] * 4
           + packet(HOST1, GROUP, UDP, options=v | BURST, units=4)),
    **both("listener", lambda v: [REQUEST | NODE1, 0x87 | (0x40 if v else 0), 0, GROUP] + [TURN] * 4
           + SECONDS3 + packet(HOST1, GROUP, UDP, options=v, units=4) + [TURN] * 3
           + packet(HOST1, GROUP, UDP, options=v, units=4)),
    **both("unspecified", lambda v: ping(UNSPECIFIED, ETH_A, v)),
    **both("ecmp", lambda v: ping(HOST1, ECMP, v) + ping(HOST1, ECMP2, v) + [DEADLINE] * 4),
    "fragment": packet(HOST1, ETH_A, UDP, options=FRAGMENT, flags=0x2000)
                + packet(HOST1, ETH_A, UDP, options=FRAGMENT, flags=0x0001, units=0),
    "too_big": FORWARD + packet(HOST1, IB1_B, UDP, options=FRAGMENT, flags=0x4000, units=255,
                                head=[0] * 8),
    "exact": ping(HOST1, ETH_A, EXACT) + ping(HOST1, HOST2, EXACT),
    "redirect": ping(HOST1, ABSENT1, V6) + ping(HOST1, HOST1, V6),
    "lost": [CABLE, 0xf1] + ping(HOST1, HOST2) + [DEADLINE] * 10,
    "repeated": [CABLE, 0xf2] + FORWARD,
    "kept": [CABLE, 0xf3] + FORWARD + [AGAIN, 0, 0x20] * 5,
    "changed": [CABLE, 0xf4, 0, 40, 0xff] + FORWARD,
    "reversed": [CABLE, 0xf5] + FORWARD,
    "again": FORWARD + [AGAIN, 0, 0, AGAIN | NODE1, 1, 0, AGAIN, 2, 5, 0, 30, 9],
    "mads": mad(2, 3, 2, 0x38, [0] * 16) + mad(2, 3, 1, 0x35) + mad(3, 3, 0x12, 0x35)
            + mad(2, 7, 3, 0x10) + mad(9, 3, 2, 0x38, [0] * 40) + mad(1, 7, 3, 0x15, node=NODE1),
    "carrier": FORWARD + [DEVICE, 0x00] + ping(HOST1, HOST2) + [DEVICE, 0x80] + [DEADLINE] * 4,
    "port_down": FORWARD + [DEVICE, 0x01] + wait(28) + ping(HOST2, HOST1, node=NODE1) + [DEVICE, 0x81],
    "port_stop": FORWARD + [DEVICE, 0x02] + ping(HOST1, HOST2) + [DEVICE, 0x82] + wait(28),
    "hca_down": FORWARD + [DEVICE, 0x03] + ping(HOST1, HOST2) + [DEVICE, 0x83] + [DEADLINE] * 4,
    "port_pulled": FORWARD + [HOLD, 8] + ping(HOST1, HOST2, BURST) + [WORKER, 0, DEVICE, 0x7f] + WORK
                   + ping(HOST2, HOST1, node=NODE1) + [DEVICE, 0x82] + [DEADLINE] * 4,
    # The packets for the HCA wait in the ring of the worker that owns it.
    "cable_pulled": FORWARD + [HOLD, 8] + ping(HOST1, HOST2, BURST) + [WORKER, 0, DEVICE, 0x7e] + WORK
                    + ping(HOST1, HOST2) + [DEVICE, 0x83] + [DEADLINE] * 4,
    "all_pulled": FORWARD + [DEVICE, 0x7e, DEVICE | NODE1, 0x7f] + ping(HOST2, HOST1, node=NODE1)
                  + [DEVICE, 0x7f, DEVICE | NODE1, 0x7e] + [DEADLINE] * 4,
    "several_paths": [DEVICE, 0x7c] + FORWARD + ping(HOST2, HOST1, node=NODE1) + [CABLE, 0xf1] + ping(HOST1, HOST2)
                     + [DEADLINE] * 10 + ping(IB1_A, IB1_B, BY_IB1) + [DEVICE | NODE1, 0x03, DEVICE | NODE1, 0x83]
                     + [DEADLINE] * 4 + FORWARD,
    "reregister": FORWARD + [DEVICE, 0x04, DEVICE | NODE1, 0x04] + [DEADLINE] * 3,
    "no_sm": [DEVICE | NODE1, 0x05, 3] + ping(HOST2, HOST1, node=NODE1) + [DEADLINE] * 6,
    "pkeys": FORWARD + [DEVICE, 0x06, 1] + ping(IB1_B, IB1_A, BY_IB1) + [DEVICE, 0x06, 4]
             + ping(HOST1, HOST2),
    "other_lid": FORWARD + [DEVICE | NODE1, 0x07, 7] + ping(HOST1, HOST2) + [DEADLINE] * 4,
    "links_down": FORWARD + [REQUEST, 0x00, 0] + ping(HOST1, HOST2) + [REQUEST, 0x80, 0]
                  + [DEADLINE] * 4,
    "small_mtu": FORWARD + [REQUEST, 0x01, 1, 20] + ping(HOST1, HOST2, units=100)
                 + ping(HOST2, HOST1, node=NODE1, units=100),
    "stopped": [REQUEST, 0x02, 0] + ping(HOST1, HOST2) + [REQUEST, 0x82, 0] + ping(HOST1, HOST2),
    "modes": [x for m in range(8) for x in [REQUEST, 0x04, 0, m] + ping(HOST1, HOST2)],
    "routes": [REQUEST, 0x85, 0, 2, 2, 3, 10] + ping(HOST1, NO_ROUTE) + [REQUEST, 0x05, 0, 2],
    "default_route": [REQUEST, 0x85, 0, 3, 1, 3] + ping(HOST1, NO_ROUTE) + [DEADLINE] * 3,
    "static_neighbour": [REQUEST, 0x86, 0, IB_ABSENT, 0, 0, 99, 2] + ping(HOST1, IB_ABSENT)
                        + [REQUEST, 0x06, 0, IB_ABSENT],
    # An address comes and goes, and its network; the neighbour on it, one that is another interface's and one that a
    # neighbour has are there, too.
    **both("addresses", lambda v: FORWARD + [REQUEST, 0x90 | v6_bit(v), 1, ECMP, 0] + ping(HOST1, ECMP, v) + ping(HOST1, ECMP2, v)
           + [DEADLINE] * 3 + [REQUEST, 0x10 | v6_bit(v), 1, ECMP, 0] + ping(HOST1, ECMP, v)),
    **both("addresses_of_others", lambda v: FORWARD + [REQUEST, 0x90 | v6_bit(v), 0, HOST1, 1, REQUEST, 0x90 | v6_bit(v), 1, HOST1, 0,
                                                       REQUEST, 0x90 | v6_bit(v), 1, IB_A, 1]
           + ping(HOST1, HOST2, v) + ping(HOST2, HOST1, v, node=NODE1) + [DEADLINE] * 3),
    **both("no_address", lambda v: FORWARD + [REQUEST, 0x10 | v6_bit(v), 0, IB_A, 0, REQUEST, 0x10 | v6_bit(v), 1, ETH_A, 0]
           + ping(HOST1, HOST2, v) + ping(HOST2, HOST1, v, node=NODE1) + [DEADLINE] * 3),
    "multicast_route": [REQUEST, 0x88, 1, GROUP2, 255, 0] + packet(HOST1, GROUP2, UDP, units=4)
                       + [TURN] * 4 + packet(HOST1, GROUP2, UDP, units=4),
    "closed": FORWARD + [REQUEST, 0x0a, 0, 0] + ping(HOST1, HOST2) + [DEADLINE] * 3,
    "flows": FORWARD + [REQUEST, 0x0e, 0, HOST1, HOST2, 0x21, 0, 200, 1, 0, REQUEST, 0x04, 0, 6]
             + wait(24) * 3 + [REQUEST, 0x04, 0, 0],
    "latency": FORWARD + [REQUEST, 0x0e, 0, HOST1, IB_A, 0x20, 1, 0, 1, 50, REQUEST, 0x04, 0, 7]
               + wait(26) * 3 + [REQUEST, 0x0d, 0],
    "first_bursts": FORWARD + [REQUEST, 0x0e, 0, HOST1, HOST2, 0x20, 0, 64, 0, 0, REQUEST, 0x0f, 0, 2]
                    + [TURN] * 3,
    "lines": FORWARD + line("show neigh json") + line("set fwd rxonly") + line("link down ib0")
             + ping(HOST1, HOST2) + line("link up ib0") + line("route add 10.6.0.0/16 via 10.0.0.2"),
    "shown": FORWARD + [x for what in ("link", "port", "hca", "route", "group", "querier", "connection",
                                       "mroute", "drops", "worker", "sa", "fwd stats", "port xstats all")
                        for x in line("show " + what)],
    "asked": FORWARD + [REQUEST, 0x0d, 0],
    "flushed": FORWARD + [HOLD, 6, REQUEST, 0x09, 0] + ping(HOST1, HOST2) + WORK,
    "interleaved": FORWARD + [HOLD, 12] + ping(HOST1, HOST2, BURST) + WORK + [REQUEST, 0x09, 0] + WORK,
    "rarp": [ETHERNET, 3, 6] + [0] * 12 + [0x80, 0x35] + [0] * 34,
    "static_ibarp": [REQUEST, 0x86, 2, IB1_ABSENT, 5, 0, 99, 2] + ping(HOST1, IB1_ABSENT)
                    + [REQUEST, 0x06, 2, IB1_ABSENT],
    "ibarp": ping(IB1_A, IB1_B, BY_IB1) + ping(IB1_B, IB1_A, BY_IB1, node=NODE1) + [DEADLINE] * 4,
    "ibarp_by_ib": [x for kind in ([0x08, 0x06], [0x08, 0x00]) for node in (0, NODE1)
                    for x in [DATAGRAM | node, 0x09, *kind, 10, 0, 32, 8, 0, 32, 4, 0, 1] + [0, 2] * 16
                    + [10, 1, 0, 2] + [0] * 32 + [10, 1, 0, 1]] + [DEADLINE] * 3,
    # Service ID resolution: a request in each partition, and a reply to no request.
    "sidr": mad(2 | IN_IB1, 7, 3, 0x17, [0, 0, 0, 9, 0x80, 1, 0, 0, 2, 0, 0, 0, 0, 0, 8, 6])
            + mad(2, 7, 3, 0x17, [0, 0, 0, 9, 0x80, 1, 0, 0, 2, 0, 0, 0, 0, 0, 8, 6])
            + mad(1 | IN_IB1, 7, 3, 0x18, [0, 0, 0, 9] + [0] * 100, node=NODE1) + [DEVICE | NODE1, 0x04] + [DEADLINE] * 3,
    "arp_by_ib": [DATAGRAM, 1, 0x08, 0x06, 7, 0, 32, 8, 0, 20, 4, 0, 1] + [0] * 49,
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed, octets in SEEDS.items():
        (folder / seed).write_bytes(bytes(octets))
