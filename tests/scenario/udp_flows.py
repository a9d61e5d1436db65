#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sends many UDP flows in one direction, and checks the order of their packets. Nothing is answered.

  udp_flows.py send ADDRESS FLOWS PACKETS   sends PACKETS to ADDRESS in each flow, one packet of each flow in 10 ms
  udp_flows.py receive PACKETS              receives until PACKETS have arrived in all or none comes for 3 s; prints
                                            "ready" on standard error, and {"flows", "packets", "overtaken"} at its end

A flow has its own source port. overtaken: packets that arrived after a later one of their flow.
"""
import json
import socket
import struct
import sys
import time

PORT = 5002
SEQUENCE = struct.Struct("!I")
QUIET_S = 3


def send(address, flows, packets):
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(flows)]
    for sequence in range(packets):
        for s in sockets:
            s.sendto(SEQUENCE.pack(sequence), (address, PORT))
        time.sleep(0.01)


def receive(packets):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        s.bind(("", PORT))
        print("ready", file=sys.stderr, flush=True)
        last = {}
        arrived = overtaken = 0
        while arrived < packets:
            try:
                data, source = s.recvfrom(64)
            except TimeoutError:
                break
            s.settimeout(QUIET_S)
            sequence = SEQUENCE.unpack(data)[0]
            overtaken += sequence < last.get(source, -1)
            last[source] = max(sequence, last.get(source, -1))
            arrived += 1
    print(json.dumps({"flows": len(last), "packets": arrived, "overtaken": overtaken}))


if sys.argv[1] == "send":
    send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    receive(int(sys.argv[2]))
