# SPDX-License-Identifier: BSD-3-Clause
"""A DHCP client of an IPoIB interface (RFC 4390): hardware type 32, no hardware address, a client identifier, and
answers by broadcast. It has no IP address. It asks until there is an offer, and prints the address.

usage: rfc4390_client.py IFACE
"""

import os
import socket
import struct
import sys
import time

SERVER, CLIENT = 67, 68
TIMEOUT_S = 60


def checksum(octets):
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def discover(xid):
    """The IP packet from 0.0.0.0 to all hosts."""
    bootp = struct.pack("!4BIHH16s16s192s", 1, 32, 0, 0, xid, 0, 0x8000, b"", b"", b"")
    identifier = b"\xff" + os.urandom(4) + struct.pack("!HH", 3, 32) + os.urandom(8)  # RFC 4361 §6.1
    options = b"\x63\x82\x53\x63" + b"\x35\x01\x01" + struct.pack("BB", 61, len(identifier)) + identifier + b"\xff"
    udp = struct.pack("!4H", CLIENT, SERVER, 8 + len(bootp + options), 0) + bootp + options
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + udp


def main():
    iface = sys.argv[1]
    answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    answers.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, iface.encode())
    answers.bind(("", CLIENT))
    answers.settimeout(1)
    link = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    xid = int.from_bytes(os.urandom(4), "big")
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        link.sendto(discover(xid), (iface, 0x0800, 0, 0, b"\xff" * 6))
        try:
            answer = answers.recv(2048)
        except TimeoutError:
            continue
        op, htype, hlen, _, answered = struct.unpack_from("!4BI", answer)
        if (op, htype, hlen, answered) == (2, 32, 0, xid):
            print(socket.inet_ntoa(answer[16:20]))
            return
    sys.exit("no offer")


main()
