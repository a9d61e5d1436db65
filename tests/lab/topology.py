#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a topology for ibsim: channel adapters H1 to HN on leaf switches L1, L2 …, joined by a spine S1.

  topology.py N
"""
import sys

DOWN = 30  # channel adapters per leaf
UP = DOWN + 1


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    adapters = range(1, int(sys.argv[1]) + 1)
    leaves = range(1, (len(adapters) + DOWN - 1) // DOWN + 1)
    print(f'Switch {len(leaves)} "S1"')
    for leaf in leaves:
        print(f'[{leaf}] "L{leaf}"[{UP}]')
    for leaf in leaves:
        print(f'\nSwitch {UP} "L{leaf}"')
        for port, adapter in enumerate(adapters[(leaf - 1) * DOWN : leaf * DOWN], 1):
            print(f'[{port}] "H{adapter}"[1]')
        print(f'[{UP}] "S1"[{leaf}]')
    for adapter in adapters:
        leaf, port = divmod(adapter - 1, DOWN)
        print(f'\nHca 1 "H{adapter}"\n[1] "L{leaf + 1}"[{port + 1}]')


main()
