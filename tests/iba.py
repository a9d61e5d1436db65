# SPDX-License-Identifier: BSD-3-Clause
"""Builds InfiniBand packets over Ethernet, for tests and measurements with packets that the program did not build
itself. Sources: drivers/soft/soft_frame.h; IBA vol 1 (LRH, GRH, BTH, DETH, ICRC)."""
import struct
import zlib

ETHERTYPE = 0x88B5
QP1_QKEY = 0x80010000
LINK_QKEY = 0x80010B1B
UD_SEND_ONLY = 0x64


def mac(lid):
    """The Ethernet address that represents a LID."""
    if lid == 0xFFFF:
        return b"\xff" * 6
    return bytes([3 if lid >= 0xC000 else 2]) + b"\x49\x42\x00" + struct.pack(">H", lid)


def icrc(packet):
    """The ICRC of a packet, which is given from LRH through the last pad octet. Returns the four octets on the wire."""
    masked = bytearray(packet)
    bth = 8
    masked[0] |= 0xF0
    if packet[1] & 3 == 3:
        masked[0:8] = b"\xff" * 8
        masked[8] |= 0x0F
        masked[9:12] = b"\xff" * 3
        masked[15] = 0xFF
        bth = 48
    masked[bth + 4] = 0xFF
    return struct.pack("<I", zlib.crc32(masked))


def ud_packet(slid, dlid, qpn, payload, *, src_qpn=0x49, qkey=LINK_QKEY, pkey=0xFFFF, psn=0, sl=0,
              grh=None):
    """A UD SEND from LRH through ICRC. `grh` is None or (source GID, destination GID), of 16 octets each."""
    pad = -len(payload) % 4
    body = struct.pack(">BBHII", UD_SEND_ONLY, 0x40 | pad << 4, pkey, qpn, psn & 0xFFFFFF)
    body += struct.pack(">II", qkey, src_qpn) + payload + bytes(pad)
    if grh:
        body = struct.pack(">IHBB", 6 << 28, len(body) + 4, 0x1B, 0) + grh[0] + grh[1] + body
    words = (8 + len(body) + 4) // 4
    packet = struct.pack(">BBHHH", 0, sl << 4 | (3 if grh else 2), dlid, words, slid) + body
    return packet + icrc(packet)


def frame(slid, dlid, packet):
    """The packet in an Ethernet frame, padded to Ethernet's minimum length."""
    return mac(dlid) + mac(slid) + struct.pack(">H", ETHERTYPE) + packet.ljust(46, b"\0")


def ipoib(ethertype, payload):
    return struct.pack(">HH", ethertype, 0) + payload


def checksum(octets):
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4_udp(source, destination, ports, length, ttl=64):
    """An IPv4 packet of `length` octets: a UDP header without checksum, and zeros."""
    udp = struct.pack(">HHHH", *ports, length - 20, 0) + bytes(length - 28)
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, length, 0, 0, ttl, 17, 0, source, destination)
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + udp


def pcap(frames):
    """The contents of a pcap file with these Ethernet frames."""
    data = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for octets in frames:
        data.append(struct.pack("<IIII", 0, 0, len(octets), len(octets)) + octets)
    return b"".join(data)
