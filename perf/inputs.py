# SPDX-License-Identifier: BSD-3-Clause
"""Writes the input of a scene, a capture file of Ethernet frames or InfiniBand packets, and the configuration of
the node that forwards it."""
import functools
import ipaddress
import math
import pathlib
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import iba  # noqa: E402

QPN = 0x48
FIRST_ROUTE = int(ipaddress.ip_address("20.0.0.0"))
LOOPBACK = 127  # The first octet of addresses that no router forwards to.
# Number of prefixes of each length in 1,000, about as in the Internet's IPv4 table of 2025. Without the few that are shorter
# there, which contain most of the others, a million has room below 169.254.0.0.
PREFIXES = {15: 2, 16: 13, 17: 8, 18: 14, 19: 25, 20: 44, 21: 54, 22: 113, 23: 105, 24: 622}
FIRST_GROUP = int(ipaddress.ip_address("239.1.0.0"))
FIRST_LID = 16  # The first LID of neighbours. The node's own LIDs are below it.
LIDS = 49000    # If there are more neighbours, they share LIDs.


def pcap_mac(pair):
    """The MAC address of net_pcap number `pair`."""
    return bytes.fromhex("0270636170") + bytes([pair])


def octets(address):
    return struct.pack(">I", address)


def dotted(address):
    return socket.inet_ntoa(octets(address))


def neighbour_address(pair, index):
    """10.8.0.0/14 is behind the first pair of devices, 10.12.0.0/14 behind the second."""
    return (10 << 24) + ((8 + 4 * pair) << 16) + 256 + index


def scattered(index, count):
    """Maps `count` consecutive indices to the numbers 0 to count - 1, each once, in scattered order."""
    stride = next(s for s in (40503, 40507, 40529, 1) if math.gcd(s, count) == 1)
    return index * stride % count


@functools.lru_cache(maxsize=4)
def prefixes(count):
    """Different prefixes without a prefix of each other, the shortest first."""
    nets, first = [], FIRST_ROUTE
    for length, share in PREFIXES.items():
        size = 1 << 32 - length
        for _ in range(round(count * share / 1000) if length != 24 else count - len(nets)):
            if first >> 24 == LOOPBACK:
                first = LOOPBACK + 1 << 24
            nets.append((first, length))
            first += size
    return nets


def destination(scene, pair, flow):
    if scene.groups:
        return FIRST_GROUP + scattered(flow, scene.groups)
    if scene.routes:
        first, length = prefixes(scene.routes)[scattered(flow, scene.routes)]
        return first + 1 + flow * 7919 % ((1 << 32 - length) - 2)
    return neighbour_address(pair, scattered(flow, scene.neighbours))


def packets(scene, pair):
    """Yields the IPv4 packets of a scene, with changing sources and ports. Packets to groups have one source, because
    a node keeps a forwarding entry for every source and group."""
    for flow in range(scene.flows):
        source = bytes([192, 168, 1 + pair, 2 + (0 if scene.groups else flow % 200)])
        yield iba.ipv4_udp(source, octets(destination(scene, pair, flow)),
                           (1024 + flow % 60000, 5001), scene.ip_octets)


def ethernet_frame(pair, packet):
    group = packet[16] >= 224
    to = b"\x01\x00\x5e" + bytes([packet[17] & 0x7F]) + packet[18:20] if group else pcap_mac(pair)
    return to + bytes.fromhex("020000000002") + struct.pack(">H", 0x0800) + packet


def own_lid(pair, side):
    return 1 + 2 * pair + (side == "to")


def infiniband_frame(pair, qpn, index, packet):
    slid, dlid = FIRST_LID + index % 500, own_lid(pair, "from")
    return iba.frame(slid, dlid, iba.ud_packet(slid, dlid, qpn, iba.ipoib(0x0800, packet), psn=index))


def frames(scene, pair, queue):
    """The frames that a receive queue gets. Those on a cable are for the queue pair of the worker that reads the queue, or
    for that of the next one."""
    for index, packet in enumerate(packets(scene, pair)):
        if scene.path == "out":
            yield ethernet_frame(pair, packet)
        else:
            worker = queue + (1 if index % 2 < scene.passed else 0)
            yield infiniband_frame(pair, QPN + worker % scene.queues, index, packet)


@functools.lru_cache(maxsize=4)
def capture(scene, pair, queue):
    """The contents of the capture file that a receive queue of net_pcap number `pair` reads."""
    return iba.pcap(frames(scene, pair, queue))


def write_captures(scene, folder):
    """Writes the capture files and returns for each pair of devices the paths of those of its receive queues."""
    files = []
    for pair in range(scene.pairs):
        files.append([])
        for queue in range(scene.queues):
            if queue == 0 or scene.path != "out":
                path = folder / f"input{pair}-{queue}.pcap"
                path.write_bytes(capture(scene, pair, queue))
            files[-1].append(path)
    return files


def hca(name, wire, lid, scene, icrc):
    """TOML of an HCA. Each HCA is alone on its fabric and is its subnet administrator."""
    return f"""[hca.{name}]
driver = "soft"
wire = "{wire}"
guid = "0x{0x0002c90300000000 + lid:016x}"
lid = {lid}
sm-lid = {lid}
mtu = {scene.ib_mtu}
subnet-administrator = true
first-qpn = {QPN}
icrc = "{icrc}"
"""


def interface(side, pair, scene, icrc):
    """TOML of a link and its HCA, or of a port. It uses net_pcap if `side` is "from", net_null if it is "to"."""
    infiniband = scene.path == "across" or (scene.path == "in") == (side == "from")
    device = f"net_pcap{pair}" if side == "from" else f"net_null{pair}"
    own = f"192.168.{1 + pair}.1/24" if side == "from" else f"{dotted(neighbour_address(pair, -255))}/14"
    router = "multicast-router = true\n" if scene.groups else ""
    if infiniband and scene.groups:
        router += 'send-only = "fullmember"\n'  # A join as full member creates the group.
    if infiniband:
        return (hca(f"{side}{pair}", device, own_lid(pair, side), scene, icrc) +
                f'[link.ib-{side}{pair}]\nhca = "{side}{pair}"\naddress = ["{own}"]\n{router}')
    mtu = scene.ib_mtu - 4
    return f'[port.eth-{side}{pair}]\ndevice = "{device}"\naddress = ["{own}"]\nmtu = {mtu}\n{router}'


def output_name(scene, pair):
    return f"{'eth' if scene.path == 'in' else 'ib'}-to{pair}"


def neighbour(scene, pair, index):
    if scene.path == "in":
        link_layer = struct.pack(">HI", 0x0200, (1 << 24) + index).hex(":")
        lid = ""
    else:
        link_layer = (octets(0x100 + index) + bytes.fromhex("fe80000000000000") +
                      struct.pack(">Q", 0x0002C90300010000 + index)).hex(":")
        lid = f"lid = {FIRST_LID + index % LIDS}\n"
    return (f'[[neighbour]]\nlink = "{output_name(scene, pair)}"\n'
            f'address = "{dotted(neighbour_address(pair, index))}"\nlladdr = "{link_layer}"\n{lid}')


def route(pair, index, scene):
    first, length = prefixes(scene.routes)[index]
    via = neighbour_address(pair, index % scene.neighbours)
    return f'[[route]]\nto = "{dotted(first)}/{length}"\nvia = ["{dotted(via)}"]\n'


def assignment(scene):
    """TOML that assigns each pair of devices to the worker with its number. A link goes by the name of its HCA. Workers
    that share a pair all receive from the port or read the cable."""
    if scene.shared:
        source, sink = ("eth-from0", "to0") if scene.path == "out" else ("from0", "eth-to0")
        return f'{{ {source} = [{", ".join(map(str, range(scene.workers)))}], {sink} = 0 }}'
    rows = []
    for pair in range(scene.pairs):
        for side, infiniband in (("from", scene.path != "out"), ("to", scene.path != "in")):
            rows.append(f'"{side if infiniband else "eth-" + side}{pair}" = {pair}')
    return "{ " + ", ".join(rows) + " }"


def configuration(scene, icrc):
    """TOML of the node. All routes and neighbours are static, so that the node resolves none."""
    rows = [f"[worker]\ncount = {scene.workers}\nburst = {scene.burst}\nassign = {assignment(scene)}\n",
            f"[subnet]\nmtu = {scene.ib_mtu}\n",
            f"[neighbour-cache]\nmax-entries = {max(1024, 2 * scene.neighbours)}\n",
            f"[route-table]\nmax-prefixes = {max(65536, 2 * scene.routes)}\n"]
    for pair in range(scene.pairs):
        rows += [interface(side, pair, scene, icrc) for side in ("from", "to")]
        if scene.groups:
            source = "eth-from" if scene.path == "out" else "ib-from"
            rows.append(f'[[multicast-route]]\ngroups = "239.1.0.0/16"\nin = "{source}{pair}"\n'
                        f'out = ["{output_name(scene, pair)}"]\n')
            continue
        rows += [neighbour(scene, pair, index) for index in range(scene.neighbours)]
        rows += [route(pair, index, scene) for index in range(scene.routes)]
    return "\n".join(rows)
