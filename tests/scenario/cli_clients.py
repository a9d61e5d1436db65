#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs clients of the CLI socket that behave badly, and one that measures their effect on others.

  cli_clients.py SOCKET NEIGHBOURS ROUTES IFACE PREFIX

Adds NEIGHBOURS static neighbours on IFACE, in the IPv4 PREFIX, whose first address is the node's, and ROUTES routes.
Requests the long lists and never reads them; sends garbage, NULs and a line without end; connects a thousand times.
Prints one JSON document: {"rows": neighbours listed, "routes": routes listed, "quiet_ms" and "slow_ms": the longest
time of a short request before and during the others, "served" and "refused": connections of the thousand}.
"""
import ipaddress
import json
import os
import socket
import sys
import time

PROMPT = b"ipoib> "
TIMEOUT_S = 60.0
QUESTION = b"show fwd json\n"


class Client:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.s.settimeout(TIMEOUT_S)
        self.s.connect(path)

    def ask(self, line):
        self.s.sendall(line)
        data = b""
        while not (data == PROMPT or data.endswith(b"\n" + PROMPT)):
            part = self.s.recv(1 << 20)
            if not part:
                sys.exit(f"cli_clients: hung up on {line!r}")
            data += part
        return data[: -len(PROMPT)]


def connect(path):
    client = Client(path)
    client.ask(b"")  # the prompt
    return client


def longest_answer_ms(client, questions):
    longest = 0.0
    for _ in range(questions):
        begin = time.monotonic()
        json.loads(client.ask(QUESTION))
        longest = max(longest, time.monotonic() - begin)
    return round(longest * 1000, 1)


def fill(client, neighbours, routes, iface, prefix):
    hosts = ipaddress.ip_network(prefix).hosts()
    next(hosts)  # the node's address
    lines = [f"neigh add {iface} {next(hosts)} lladdr 02:00:00:00:00:99" for _ in range(neighbours)]
    lines += [f"route add 100.{64 + i // 256}.{i % 256}.0/24 blackhole" for i in range(routes)]
    for line in lines:  # One line at a time, because this does not test the buffers.
        answer = client.ask(line.encode() + b"\n")
        if answer:
            sys.exit(f"cli_clients: {line}: {answer.decode()}")


def misbehave(path):
    for octets in (os.urandom(65536), b"\0" * 65536, b"\n" * 65536, b"x" * (1 << 20)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(0.5)
            s.connect(path)
            try:
                s.sendall(octets)
            except OSError:
                pass  # The node stops reading, because its answers are not read.


def crowd(path, count):
    clients, refused = [], 0
    for _ in range(count):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(TIMEOUT_S)
        s.connect(path)
        if s.recv(4096).startswith(b"error: the limit of "):
            refused += 1
            s.close()
        else:
            clients.append(s)
    for s in clients:
        s.close()
    return len(clients), refused


def main():
    path, neighbours, routes, iface, prefix = sys.argv[1:]
    neighbours, routes = int(neighbours), int(routes)
    client = connect(path)
    fill(client, neighbours, routes, iface, prefix)
    result = {"quiet_ms": longest_answer_ms(client, 50)}

    slow = [connect(path) for _ in range(4)]
    for s, line in zip(slow, (b"show neigh\n", b"show neigh json\n", b"show route\n", b"help\n")):
        s.s.setblocking(False)
        try:
            s.s.send(line * 1000)
        except BlockingIOError:
            pass
    result["slow_ms"] = longest_answer_ms(client, 200)
    misbehave(path)
    result["served"], result["refused"] = crowd(path, 1000)
    for s in slow:
        s.s.close()
    client = connect(path)
    result["rows"] = len(json.loads(client.ask(b"show neigh json\n")))
    result["routes"] = len(json.loads(client.ask(b"show route json\n")))
    print(json.dumps(result))


main()
