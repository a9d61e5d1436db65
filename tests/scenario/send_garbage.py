#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""send_garbage.py INTERFACE LID QPN: sends faulty frames to the node at LID, whose IPoIB queue pair is QPN, and prints
their number. The frames are the same each time, by a fixed seed."""
import pathlib
import random
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import iba  # noqa: E402

NOBODY = 0x0777  # A LID and QPN that no node of the scenarios has.
PACE_S = 0.001   # A higher rate would reach rate limits, which hide the other counters.
OWN = bytes([10, 0, 0, 1])
OTHER = bytes([192, 168, 2, 2])


def with_icrc(packet):
    return packet[:-4] + iba.icrc(packet[:-4])


def patched(packet, offset, octets):
    """The packet with octets replaced and a correct ICRC, so that another check must reject it."""
    return with_icrc(packet[:offset] + octets + packet[offset + len(octets):])


def bad_packets(lid, qpn, good):
    """Packets with one fault each."""
    yield patched(good, 0, b"\x0f")                                  # LVer
    for lnh in (0, 1):
        yield patched(good, 1, bytes([lnh]))
    for words in (0, 1, 5, 7, len(good) // 4 - 1, len(good) // 4 + 1, 0x7FF):
        yield patched(good, 4, struct.pack(">H", words))             # PktLen
    yield patched(good, 2, struct.pack(">H", NOBODY))                # DLID
    yield patched(good, 2, struct.pack(">H", 0))
    yield patched(good, 2, struct.pack(">H", 0xC777))                # MLID without members
    for opcode in (0x00, 0x04, 0x11, 0x24, 0x44, 0x65, 0x81, 0xFF):
        yield patched(good, 8, bytes([opcode]))
    yield patched(good, 9, b"\x4f")                                  # TVer
    yield patched(good, 9, b"\x70")                                  # Pad 3 over the payload
    for pkey in (0, 0x8000, 0x8123, 0x0123):
        yield patched(good, 10, struct.pack(">H", pkey))
    for number in (0, 0xFFFFFF, NOBODY):
        yield patched(good, 12, struct.pack(">I", number))           # DestQP
    for qkey in (0, iba.QP1_QKEY, 0xFFFFFFFF):
        yield patched(good, 20, struct.pack(">I", qkey))
    for bit in range(0, len(good) * 8, 7):                           # ICRC, or a field with an earlier check
        broken = bytearray(good)
        broken[bit // 8] ^= 1 << bit % 8
        if iba.icrc(bytes(broken[:-4])) != bytes(broken[-4:]):
            yield bytes(broken)
    gids = (b"\xfe\x80" + bytes(13) + b"\x09", b"\xfe\x80" + bytes(13) + b"\x0a")
    foreign = iba.ud_packet(NOBODY, lid, qpn, good[28:-4], grh=gids)
    yield foreign                                                    # GID of another port
    yield patched(foreign, 8, b"\x40")                               # GRH IPVer
    yield patched(foreign, 12, b"\xff\xff")                          # GRH PayLen
    yield patched(foreign, 14, b"\x06")                              # GRH NxtHdr
    yield iba.ud_packet(NOBODY, lid, 0xFFFFFF, good[28:-4])          # multicast QP without a GRH


def bad_payloads(rng):
    """Faulty payloads for correct InfiniBand packets to the IPoIB queue pair."""
    ip = iba.ipv4_udp(OTHER, OWN, (1, 2), 64)
    for length in range(0, 4):
        yield bytes(length)                                          # shorter than the IPoIB header
    for ethertype in (0, 1, 0x0801, 0x88B5, 0xFFFF):
        yield iba.ipoib(ethertype, ip)
    for length in range(0, 28):
        yield iba.ipoib(0x0800, ip[:length])
    for offset, octets in ((0, b"\x65"), (0, b"\x44"), (0, b"\x4f"), (2, b"\xff\xff"), (2, b"\0\x05"),
                           (10, b"\0\0"), (12, b"\xe0\0\0\1"), (12, b"\x7f\0\0\1"), (12, b"\0" * 4),
                           (16, b"\x7f\0\0\1"), (16, b"\xf0\0\0\1")):
        broken = ip[:offset] + octets + ip[offset + len(octets):]
        if offset != 10:
            header = broken[:10] + b"\0\0" + broken[12:20]
            broken = header[:10] + struct.pack(">H", iba.checksum(header)) + broken[12:]
        yield iba.ipoib(0x0800, broken)
    arp = struct.pack(">HHBBH", 32, 0x0800, 20, 4, 1) + rng.randbytes(24) + bytes(20) + OWN
    for length in range(0, len(arp)):
        yield iba.ipoib(0x0806, arp[:length])
    for offset, octets in ((0, b"\0\1"), (2, b"\x86\xdd"), (4, b"\6"), (5, b"\x10"), (6, b"\0\0")):
        yield iba.ipoib(0x0806, arp[:offset] + octets + arp[offset + len(octets):])
    for _ in range(100):
        yield iba.ipoib(rng.choice((0x0800, 0x0806)), rng.randbytes(rng.randrange(200)))


def bad_mads(rng):
    """Management datagrams: random ones, truncated ones, and some with a wrong version, class, method, attribute or
    status."""
    for _ in range(100):
        yield rng.randbytes(256)
    for length in range(0, 256, 5):
        yield rng.randbytes(length)
    head = ">BBBBHHQHHI"
    fields = {"version": (0, 2, 255), "management_class": (0, 1, 4, 7, 0x81, 255),
              "class_version": (0, 1, 3), "method": (0, 1, 2, 3, 5, 0x12, 0x15, 0x81, 0x92, 0xFF),
              "attribute": (0, 1, 0x12, 0x35, 0x38, 0xFFFF), "status": (4, 0x1C, 0x0200, 0xFFFF)}
    for field, values in fields.items():
        for value in values:
            mad = {"version": 1, "management_class": 3, "class_version": 2, "method": 1,
                   "attribute": 0x38, "status": 0} | {field: value}
            yield struct.pack(head, mad["version"], mad["management_class"], mad["class_version"],
                              mad["method"], mad["status"], 0, rng.getrandbits(64),
                              mad["attribute"], 0, 0) + rng.randbytes(232)


def frames(lid, qpn):
    rng = random.Random(4391)
    good = iba.ud_packet(NOBODY, lid, qpn, iba.ipoib(0x0800, iba.ipv4_udp(OTHER, OWN, (1, 2), 64)))
    head = iba.mac(lid) + iba.mac(NOBODY) + struct.pack(">H", iba.ETHERTYPE)
    for length in range(0, 160):
        yield head + rng.randbytes(length)
    for length in range(0, len(good)):
        yield head + good[:length]                                   # PktLen beyond the frame
    for packet in bad_packets(lid, qpn, good):
        yield iba.frame(NOBODY, lid, packet)
    for payload in bad_payloads(rng):
        yield iba.frame(NOBODY, lid, iba.ud_packet(NOBODY, lid, qpn, payload))
    for mad in bad_mads(rng):
        yield iba.frame(NOBODY, lid, iba.ud_packet(NOBODY, lid, 1, mad, src_qpn=1, qkey=iba.QP1_QKEY))
    for ethertype in (0x0800, 0x0806, 0x88B6):
        yield iba.mac(lid) + iba.mac(NOBODY) + struct.pack(">H", ethertype) + rng.randbytes(60)


def main():
    interface, lid, qpn = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sent = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((interface, 0))
        for octets in frames(lid, qpn):
            wire.send(octets)
            sent += 1
            time.sleep(PACE_S)
    print(sent)


main()
