#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plays a faulty host of the draft of 2001 on the wire.

  ibarp_faults.py sidr INTERFACE LID                  answers the service ID requests to LID, each with another fault, and
                                                      ends after the last one
  ibarp_faults.py packets INTERFACE LID QPN QKEY      sends faulty IBARP packets to the queue pair QPN of the node at LID,
                                                      and prints their number

Source: draft-pelissier-ipoib-encaparp-00 §6.2 to §6.4."""
import pathlib
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import iba  # noqa: E402

NOBODY = 0x0777  # A LID that no node of the scenarios has.
PACE_S = 0.002   # A higher rate would reach rate limits.
SIDR_REQ, SIDR_REP = 0x17, 0x18
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 263, 1, 1
MAD_AT = 14 + 8 + 12 + 8  # Ethernet, LRH, BTH, DETH.
MGID = bytes.fromhex("ff12401bffff0000") + bytes(4) + b"\xff" * 4
OWN_GID = bytes.fromhex("fe80000000000000") + struct.pack(">Q", NOBODY)


def parameters(ver=1, mlid=0xC000, mgid=MGID, pkey=0xFFFF):
    """Private data of a service ID reply."""
    return struct.pack(">BBHIHHI", ver << 4, 0, mlid, 0, 0, pkey, iba.LINK_QKEY) + mgid


FAULTY_ANSWERS = (parameters(ver=2), parameters(mlid=0x0009), parameters(mgid=OWN_GID), parameters(pkey=0x8123))


def answer_of(mad, private_data):
    """A service ID reply with status "valid" to the request."""
    head = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, *struct.unpack_from(">Q", mad, 8), SIDR_REP, 0, 0)
    request_id, service_id = mad[24:28], mad[32:40]
    rep = request_id + bytes(4) + b"\xff\xff\xff\0" + service_id + struct.pack(">I", iba.LINK_QKEY) + bytes(72)
    return head + rep + private_data.ljust(136, b"\0")


def serve(wire, lid):
    wire.settimeout(60)
    answers = {}  # The keys are request IDs, because requests are repeated.
    while True:
        octets = wire.recv(4096)
        if octets[12:14] != struct.pack(">H", iba.ETHERTYPE) or octets[:6] != iba.mac(lid):
            continue
        mad = octets[MAD_AT:MAD_AT + 256]
        if mad[1] != 7 or mad[16:18] != struct.pack(">H", SIDR_REQ):
            continue
        fault = answers.setdefault(mad[24:28], len(answers))
        if fault == len(FAULTY_ANSWERS):
            return
        slid = struct.unpack_from(">H", octets, 14 + 6)[0]
        packet = iba.ud_packet(lid, slid, 1, answer_of(mad, FAULTY_ANSWERS[fault]), src_qpn=1, qkey=iba.QP1_QKEY)
        wire.send(iba.frame(lid, slid, packet))


def encapsulated(ethertype, payload):
    return struct.pack(">HH", 0, ethertype) + payload


def address(qpn=0x60, gid=OWN_GID):
    return gid[8:] + struct.pack(">II", qpn, 0x1234) + gid


def record(hardware=32, protocol=0x0800, hlen=32, plen=4, operation=1, sender=address()):
    return struct.pack(">HHBBH", hardware, protocol, hlen, plen, operation) + sender + bytes([10, 0, 0, 0x77]) + \
        bytes(32) + bytes([10, 0, 0, 1])


def faulty_payloads():
    for length in range(len(record())):
        yield encapsulated(0x0806, record()[:length])
    for length in range(4):
        yield bytes(length)
    for change in ({"hardware": 1}, {"protocol": 0x86DD}, {"hlen": 20}, {"plen": 16}, {"operation": 0}, {"operation": 9}):
        yield encapsulated(0x0806, record(**change))
        yield encapsulated(0x0800, record(**change))
    for sender in (address(qpn=0), address(qpn=1), address(qpn=0xFFFFFF), address(gid=bytes(16)), address(gid=MGID)):
        yield encapsulated(0x0806, record(sender=sender))
    yield encapsulated(0x0806, record() + bytes(4))                   # one word too many
    twice = address()[:20] + address()[16:]
    yield encapsulated(0x0806, record(sender=twice) + bytes(4))       # the first word of the GIDs twice
    yield iba.ipoib(0x0806, record())                                 # the header of RFC 4391
    yield encapsulated(0x0801, record())


def send(wire, lid, qpn, qkey):
    sent = 0
    for payload in faulty_payloads():
        wire.send(iba.frame(NOBODY, lid, iba.ud_packet(NOBODY, lid, qpn, payload, qkey=qkey)))
        sent += 1
        time.sleep(PACE_S)
    print(sent)


def main():
    mode, interface, *numbers = sys.argv[1:]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as wire:
        wire.bind((interface, 0))
        promiscuous = struct.pack("@iHH8s", socket.if_nametoindex(interface), PACKET_MR_PROMISC, 0, bytes(8))
        wire.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, promiscuous)
        {"sidr": serve, "packets": send}[mode](wire, *map(int, numbers))


main()
