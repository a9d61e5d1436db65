#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kills a node repeatedly, which systemd restarts, and measures how long it forwards nothing.

  kill_node.py SYSTEMD_PID IFACE ADDRESS KILLS SEED

The node is the child of that process. flow.py sends to ADDRESS, which is behind IFACE here. The signal is SIGSEGV or
SIGKILL at random. One kill in five, at random, is followed by another within 1.5 seconds, while the node may still
start. Prints one JSON document: kills, outages (kills after which the next node forwarded a packet), median_s and
worst_s of the outages, and slow, a text for each outage of more than 2 s. Ends with status 1 if nothing is forwarded
for 60 s.
"""
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

from flow import Wire

BACK_S = 60.0
SLOW_S = 2.0


def node_of(systemd):
    """Returns the process id of the node, or None while there is none. A new process has its name only after exec."""
    found = subprocess.run(["pgrep", "-P", systemd, "-x", "dpdk-ipoib"], capture_output=True, text=True)
    return int(found.stdout.split()[0]) if found.stdout.strip() else None


def kill(systemd, earlier, number):
    """Waits for a node that is not the process `earlier`, kills it and returns its process id."""
    limit = time.monotonic() + BACK_S
    while (pid := node_of(systemd)) is None or pid == earlier:
        if time.monotonic() > limit:
            sys.exit("systemd did not start the node again")
        time.sleep(0.005)
    os.kill(pid, number)
    return pid


def main():
    systemd, iface, address, kills, seed = sys.argv[1:]
    dice = random.Random(int(seed))
    wire = Wire(iface, address)
    outages, slow, killed, dead = [], [], 0, None
    while killed < int(kills):
        time.sleep(dice.uniform(0, 0.5))
        dead = kill(systemd, dead, dice.choice((signal.SIGKILL, signal.SIGSEGV)))
        died_at, killed = time.time(), killed + 1
        if killed < int(kills) and dice.random() < 0.2:
            time.sleep(dice.uniform(0, 1))
            continue
        # Packets forwarded before the kill may still arrive. They do not end the outage.
        while (arrival := wire.receive(died_at + BACK_S)) is not None:
            if arrival[1] > died_at and node_of(systemd) not in (None, dead):
                break
        if arrival is None:
            sys.exit(f"nothing passed for {BACK_S} s after death {killed}")
        outages.append(arrival[1] - died_at)
        if outages[-1] > SLOW_S:
            slow.append(f"death {killed}: {outages[-1]:.2f} s")
    print(json.dumps({"kills": killed, "outages": len(outages), "median_s": statistics.median(outages),
                      "worst_s": max(outages), "slow": slow}))


main()
