# SPDX-License-Identifier: BSD-3-Clause
"""Pretty printers for gdb:  (gdb) source config/gdb/ipoib.py

They print rte_mbuf with the headers of its packet and its PacketMeta, and addresses, GIDs, MAC addresses, neighbours,
next hops and numbers in network byte order as the program itself would. `print/r` prints the members as they are.
"""
import ipaddress

import gdb
import gdb.printing

MBUF_F_INDIRECT = 1 << 62
SHOWN_OCTETS = 16


def octets_of(array):
    """The octets of a std::array<std::byte, N>."""
    elements = array["_M_elems"]
    low, high = elements.type.strip_typedefs().range()
    return bytes(int(elements[i]) for i in range(low, high + 1))


def address_text(octets):
    address = ipaddress.IPv6Address(octets)
    return str(address.ipv4_mapped or address)


def mac_text(octets):
    return ":".join(f"{octet:02x}" for octet in octets)


def enumerator(value):
    """`kValid` of ipoib::table::NeighbourState::kValid."""
    return str(value).rsplit("::", 1)[-1]


class Printer:
    def __init__(self, value):
        self.value = value


class IpAddr(Printer):
    def to_string(self):
        return address_text(octets_of(self.value["bytes"]))


class IpPrefix(Printer):
    def to_string(self):
        return f"{address_text(octets_of(self.value['addr']['bytes']))}/{int(self.value['len'])}"


class Gid(Printer):
    def to_string(self):
        return str(ipaddress.IPv6Address(octets_of(self.value["bytes"])))


class LinkAddr(Printer):
    def to_string(self):
        v = self.value
        qpn = int.from_bytes(octets_of(v["qpn"]["bytes_"]), "big")
        return f"flags {int(v['flags']):#04x} QPN {qpn:#08x} GID {ipaddress.IPv6Address(octets_of(v['gid']['bytes']))}"


class ByteArray(Printer):
    """std::array<std::byte, 6>: a MAC address. Other lengths: hexadecimal digits."""

    def to_string(self):
        octets = octets_of(self.value)
        return mac_text(octets) if len(octets) == 6 else octets.hex(" ")


class BigEndian(Printer):
    """wire::Be16, Be32 …: the number in host order."""

    def to_string(self):
        octets = octets_of(self.value["bytes_"])
        return f"{int.from_bytes(octets, 'big')} (0x{octets.hex()})"


class Neighbour(Printer):
    def to_string(self):
        v = self.value
        mode, state = enumerator(v["mode"]), enumerator(v["state"])
        text = f"{address_text(octets_of(v['addr']['bytes']))} on interface {int(v['iface'])}: {state} {mode}"
        if mode == "kEthernet":
            text += f" MAC {mac_text(octets_of(v['mac']))}"
        elif mode == "kUd":
            text += f" AH {int(v['ah'])} QPN {int(v['qpn']):#08x}"
        else:
            text += f" queue {int(v['queue']):#x}"
        return f"{text} MTU {int(v['mtu'])} used {int(v['last_used_s'])} s"


class NextHop(Printer):
    def to_string(self):
        v = self.value
        kind = enumerator(v["kind"])
        if kind in ("kNone", "kBlackhole", "kUnreachable", "kProhibited"):
            return kind
        if kind == "kGroup":
            return f"{kind} of {1 << int(v['bucket_bits'])} buckets from next hop {int(v['neighbour'])}"
        text = f"{kind} on interface {int(v['iface'])}"
        return f"{text} neighbour {int(v['neighbour'])}" if kind == "kGateway" else text


def meta_text(meta):
    """All three uses of the metadata, because only the place in the program tells which one it has."""
    rx, held, tx = meta["rx"], meta["held"], meta["tx"]
    text = (f"rx {{SLID {int(rx['slid'])} QPN {int(rx['src_qpn']):#08x} SL {int(rx['sl'])} interface "
            f"{int(rx['iface'])} GRH at -{int(rx['grh_offset'])} {'multicast' if rx['multicast'] else 'unicast'} "
            f"{enumerator(rx['transport'])}}}")
    text += f" held {{in {int(held['in_iface'])} out {int(held['out_iface'])}}}"
    text += (f" tx {{AH {int(tx['ah'])} QPN {int(tx['qpn']):#08x} interface {int(tx['iface'])}"
             f"{' connected' if tx['connected'] else ''}}}")
    return f"{text} queue {int(meta['queue']):#08x}"


class PacketMeta(Printer):
    def to_string(self):
        return meta_text(self.value)


def meta_of(mbuf):
    """The PacketMeta of an mbuf; None before register_packet_meta()."""
    offset = gdb.lookup_global_symbol("ipoib::fabric::packet_meta_offset")
    if offset is None or int(offset.value()) < 0 or mbuf.address is None:
        return None
    kind = gdb.lookup_type("ipoib::fabric::PacketMeta")
    return gdb.Value(int(mbuf.address) + int(offset.value())).cast(kind.pointer()).dereference()


class Mbuf(Printer):
    def to_string(self):
        v = self.value
        text = (f"mbuf port {int(v['port'])} pkt_len {int(v['pkt_len'])} data_len {int(v['data_len'])} "
                f"data_off {int(v['data_off'])} segs {int(v['nb_segs'])} refs {int(v['refcnt'])}")
        if int(v["ol_flags"]) & MBUF_F_INDIRECT:
            text += " indirect"
        return f"{text} data {self.data()}"

    def children(self):
        meta = meta_of(self.value)
        if meta is not None:
            yield "meta", meta_text(meta)
        if int(self.value["next"]) != 0:
            yield "next", self.value["next"].dereference()

    def data(self):
        n = min(int(self.value["data_len"]), SHOWN_OCTETS)
        at = int(self.value["buf_addr"]) + int(self.value["data_off"])
        try:
            octets = bytes(gdb.selected_inferior().read_memory(at, n)) if n else b""
        except gdb.MemoryError:
            return "not readable"
        return octets.hex(" ") + (" ..." if int(self.value["data_len"]) > n else "")


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("dpdk-ipoib")
    for name, pattern, printer in (
            ("IpAddr", r"^ipoib::wire::IpAddr$", IpAddr),
            ("IpPrefix", r"^ipoib::wire::IpPrefix$", IpPrefix),
            ("Gid", r"^ipoib::wire::Gid$", Gid),
            ("ByteArray", r"^std::array<std::byte, \d+(ul|u|UL)?>$", ByteArray),
            ("LinkAddr", r"^ipoib::wire::LinkAddr$", LinkAddr),
            ("Be", r"^ipoib::wire::Be(24|<.*>)$", BigEndian),
            ("Neighbour", r"^ipoib::table::Neighbour$", Neighbour),
            ("NextHop", r"^ipoib::table::NextHop$", NextHop),
            ("PacketMeta", r"^ipoib::fabric::PacketMeta$", PacketMeta),
            ("rte_mbuf", r"^rte_mbuf$", Mbuf)):
        collection.add_printer(name, pattern, printer)
    return collection


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
