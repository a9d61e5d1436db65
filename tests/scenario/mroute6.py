#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A multicast routing daemon of IPv6 with entries from its command line. FRR 8.4 in Debian 12 has no pim6d.

  mroute6.py GROUP SOURCE IN OUT    gives Linux the entry, and removes it at SIGTERM; prints "ready"
"""
import ipaddress
import signal
import socket
import struct
import sys

# The interface of Linux for multicast routing daemons of IPv6.
MRT6_INIT, MRT6_ADD_MIF, MRT6_ADD_MFC = 200, 202, 204
MIFCTL = struct.Struct("@HBBHI")  # mif, flags, threshold, index of the interface, rate
SOCKADDR = struct.Struct("@HHI16sI")
SET_LEN = 32  # octets of struct if_set


def main():
    group, source, *names = sys.argv[1:]
    router = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    router.setsockopt(socket.IPPROTO_IPV6, MRT6_INIT, 1)
    for number, name in enumerate(names):
        mif = MIFCTL.pack(number, 0, 1, socket.if_nametoindex(name), 0)
        router.setsockopt(socket.IPPROTO_IPV6, MRT6_ADD_MIF, mif)

    def address(text):
        return SOCKADDR.pack(socket.AF_INET6, 0, 0, ipaddress.ip_address(text).packed, 0)

    entry = address(source) + address(group) + struct.pack("@H2x", 0) + struct.pack("@I", 1 << 1).ljust(SET_LEN, b"\0")
    router.setsockopt(socket.IPPROTO_IPV6, MRT6_ADD_MFC, entry)
    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM])


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    main()
