#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Listens on the service manager's end of NOTIFY_SOCKET, or on the socket /dev/log, and prints each datagram.

usage: notify_socket.py NAME     NAME is a path, or "@" and an abstract name

Prints a line for each datagram: seconds, a space, and its text with "|" for line breaks. Prints "listening" on
standard error when the socket is bound.
"""
import socket
import sys
import time

name = sys.argv[1]
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
    receiver.bind("\0" + name[1:] if name.startswith("@") else name)
    print("listening", file=sys.stderr, flush=True)
    while True:
        text = receiver.recv(65536).decode(errors="replace").strip("\0\n").replace("\n", "|")
        print(f"{time.monotonic():.3f} {text}", flush=True)
