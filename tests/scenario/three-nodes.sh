#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Three nodes are connected to a Linux bridge. Every host reaches every other, with small and with the largest packets.
# Each node has its neighbours with a 20-octet link-layer address.
# shows: U-12, U-15, U-19, U-20, U-23
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin three
scenario_up a b c
ping_each_other a b c
expect "link MTU" "$(link_field a mtu)" 2044

# An IPoIB link-layer address consists of a flags octet of zero, the QPN, and the port's GID.
neighbours=$(cli a "show neigh json" |
  json '"\n".join(x["lladdr"] for x in d if x["iface"] == "ib0")')
expect "neighbours of node a" "$(grep -cE '^00(:[0-9a-f]{2}){19}$' <<<"$neighbours")" 2
expect_text "neighbours of node a" "$neighbours" 'fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:03$'
