#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sends and receives UDP flows with sequence numbers between hosts of a scenario, and joins multicast groups.

  flow.py send IFACE PERIOD_MS ADDRESS...     sends a packet to each address every PERIOD_MS, until SIGTERM
  flow.py watch IFACE ADDRESS                 receives packets to ADDRESS, until SIGTERM
  flow.py flows IFACE ADDRESS...              likewise to each address; IFACE may be "any"
  flow.py departures IFACE ADDRESS...         likewise, those that this host sends or forwards
  flow.py member IFACE GROUP CYCLES HOLD_S    joins through the kernel, receives for HOLD_S, leaves, CYCLES times

Each command prints "ready" on standard error and one JSON document at its end. It receives packets from the interface
with the kernel's timestamps, whether this host is a member or not, and so also sees packets that come too early or too
late.

  send    {ADDRESS: packets sent, ...}
  watch   {"packets", "lost", "repeated", "first": sequence number, "first_at": seconds of the epoch,
           "longest_gap_ms"}; prints "arrived" on standard error with the first packet
  flows   {ADDRESS: {"packets", "lost", "repeated", "longest_gap_ms", "by": interface of the first packet}, ...},
           departures likewise; prints "arrived" with the first packet of the last flow
  member  [{"join_ms": from the join to the first packet, "packets", "lost", "repeated",
            "stop_ms": from the leave to the last packet, 0 if none came, "idle": packets before the join}]

lost: sequence numbers missing between the first and the last that arrived (member: during the membership).
A join or leave begins with the kernel's message about it. With MLDv2 that comes up to ten seconds after the call,
because Linux takes the delay from the last query.
"""
import ipaddress
import json
import signal
import socket
import struct
import sys
import time

PORT = 5001
MAGIC = b"ipoibflo"
PAYLOAD = struct.Struct("!8sQ")
SO_TIMESTAMPNS = 35
TIMESPEC = struct.Struct("@qq")
PACKET_OUTGOING = 4
ETH_P_ALL = 3
IGMP = 2
ICMPV6 = 58
REPORT_S = 25.0  # the limit for the kernel's message about a join or leave, which it sends twice
FIRST_PACKET_S = 15.0  # the limit for the first packet after a join
QUIET_S = 1.5  # without a packet for that long, the flow has stopped
STOP_S = 10.0

ended = False


def end(*_):
    global ended
    ended = True


def ready():
    print("ready", file=sys.stderr, flush=True)


class Wire:
    """Receives the packets of the flow to one address on an interface."""

    def __init__(self, iface, address, outgoing=False):
        self.outgoing = outgoing  # receives the packets that this host sends
        self.to = ipaddress.ip_address(address).packed
        self.others = ()  # further addresses
        self.last_to = self.by = None  # destination of the last packet, and the interface that it came from
        self.ether_type = 0x0800 if len(self.to) == 4 else 0x86DD
        self.reported = None  # time of the kernel's first IGMP or MLD message about the group since this was reset
        # The socket has no protocol until bind(): a change of protocol would lose packets.
        everywhere = iface == "any"
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL) if everywhere else 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        if everywhere:
            return
        self.socket.bind((iface, ETH_P_ALL))  # A socket of one protocol does not see what this host sends.

    def receive(self, until):
        """Returns (sequence number, time of arrival) of the next packet, or None if none comes in time."""
        while not ended:
            left = until - time.time()
            if left <= 0:
                return None
            self.socket.settimeout(min(left, 0.1))
            try:
                data, control, _, where = self.socket.recvmsg(9000, 64)
            except TimeoutError:
                continue
            if where[1] != self.ether_type:
                continue
            seconds, nanoseconds = TIMESPEC.unpack(control[0][2][: TIMESPEC.size])
            at = seconds + nanoseconds / 1e9
            if (where[2] == PACKET_OUTGOING) != self.outgoing:
                if self.reported is None and self.is_report(data):
                    self.reported = at
                continue
            number = self.number(data)
            if number is not None:
                self.by = where[0]
                return number, at
        return None

    def is_report(self, packet):
        """True for IGMP and MLD messages that name the group. MLD is behind a hop-by-hop header of eight octets."""
        protocol = packet[9] if len(self.to) == 4 else packet[40] if packet[6] == 0 else None
        return protocol in (IGMP, ICMPV6) and self.to in packet[20:]

    def number(self, packet):
        if len(self.to) == 4:
            udp, destination = (packet[0] & 15) * 4, packet[16:20]
        else:
            udp, destination = 40, packet[24:40]
        payload = packet[udp + 8 : udp + 8 + PAYLOAD.size]
        if (destination != self.to and destination not in self.others) or len(payload) < PAYLOAD.size:
            return None
        self.last_to = destination
        magic, number = PAYLOAD.unpack(payload)
        return number if magic == MAGIC else None


def family_of(address):
    return socket.AF_INET if ipaddress.ip_address(address).version == 4 else socket.AF_INET6


def udp_socket(family, index):
    """Returns a socket that sends multicast out of the interface and does not loop it back to this host."""
    s = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("@4s4si", b"", b"", index))
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 16)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    else:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 16)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
    return s


def send(iface, period_ms, *addresses):
    index = socket.if_nametoindex(iface)
    sockets = {a: udp_socket(family_of(a), index) for a in addresses}
    number = 0
    ready()
    at = time.monotonic()
    while not ended:
        for address, s in sockets.items():
            s.sendto(PAYLOAD.pack(MAGIC, number), (address, PORT))
        number += 1
        at += float(period_ms) / 1000
        time.sleep(max(0.0, at - time.monotonic()))
    return {a: number for a in addresses}


def summary(numbers):
    distinct = set(numbers)
    span = max(distinct) - min(distinct) + 1 if distinct else 0
    return {"packets": len(numbers), "lost": span - len(distinct), "repeated": len(numbers) - len(distinct)}


def watch(iface, address):
    wire = Wire(iface, address)
    arrivals = []
    ready()
    while not ended:
        arrival = wire.receive(time.time() + 1)
        if arrival and not arrivals:
            print("arrived", file=sys.stderr, flush=True)
        if arrival:
            arrivals.append(arrival)
    times = [at for _, at in arrivals]
    gaps = [b - a for a, b in zip(times, times[1:])]
    result = summary([number for number, _ in arrivals])
    result["first"], result["first_at"] = arrivals[0] if arrivals else (None, None)
    result["longest_gap_ms"] = round(1000 * max(gaps, default=0))
    return result


def departures(iface, *addresses):
    return flows(iface, *addresses, outgoing=True)


def flows(iface, *addresses, outgoing=False):
    wire = Wire(iface, addresses[0], outgoing)
    wire.others = {ipaddress.ip_address(a).packed for a in addresses[1:]}
    arrivals = {ipaddress.ip_address(a).packed: [] for a in addresses}
    by = {}
    ready()
    while not ended:
        arrival = wire.receive(time.time() + 1)
        if not arrival:
            continue
        arrivals[wire.last_to].append(arrival)
        if by.setdefault(wire.last_to, wire.by) and len(arrivals[wire.last_to]) == 1 and len(by) == len(addresses):
            print("arrived", file=sys.stderr, flush=True)
    result = {}
    for address in addresses:
        key = ipaddress.ip_address(address).packed
        times = [at for _, at in arrivals[key]]
        result[address] = summary([number for number, _ in arrivals[key]])
        result[address]["longest_gap_ms"] = round(1000 * max((b - a for a, b in zip(times, times[1:])), default=0))
        result[address]["by"] = by.get(key)
    return result


def join(group, index):
    family = family_of(group)
    s = socket.socket(family, socket.SOCK_DGRAM)
    packed = ipaddress.ip_address(group).packed
    if family == socket.AF_INET:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("@4s4si", packed, b"", index))
    else:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, struct.pack("@16si", packed, index))
    return s


def take(wire, until):
    arrivals = []
    while arrival := wire.receive(until):
        arrivals.append(arrival)
    return arrivals


def one_membership(wire, group, index, hold_s):
    idle = take(wire, time.time() + QUIET_S)
    wire.reported = None
    called_at = time.time()
    membership = join(group, index)
    first = wire.receive(called_at + REPORT_S + FIRST_PACKET_S)
    if first is None:
        raise SystemExit(f"{group}: nothing within {REPORT_S + FIRST_PACKET_S} s of the join")
    joined_at = wire.reported or called_at
    arrivals = [first] + take(wire, first[1] + hold_s)
    wire.reported = None
    called_at = time.time()
    membership.close()  # This makes the kernel leave the group.
    late = []
    while arrival := wire.receive(min(time.time() + QUIET_S, (wire.reported or called_at + REPORT_S) + STOP_S)):
        late.append(arrival)
    left_at = wire.reported or called_at
    arrivals += [a for a in late if a[1] <= left_at]
    stop_s = max((at - left_at for _, at in late), default=0)
    result = summary([number for number, _ in arrivals])
    result.update(join_ms=round(1000 * (first[1] - joined_at)), stop_ms=max(0, round(1000 * stop_s)))
    result["idle"] = len(idle)
    return result


def member(iface, group, cycles, hold_s):
    index = socket.if_nametoindex(iface)
    wire = Wire(iface, group)
    ready()
    return [one_membership(wire, group, index, float(hold_s)) for _ in range(int(cycles))]


def main():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    commands = {"send": send, "watch": watch, "flows": flows, "departures": departures, "member": member}
    if len(sys.argv) < 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    print(json.dumps(commands[sys.argv[1]](*sys.argv[2:])))


if __name__ == "__main__":
    main()
