#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A full table of the Internet in Linux, which node a follows: memory, times, and traffic to other prefixes, which loses
# no packet while the table is loaded and while 10,000 routes change each second.
#   tests/scenario/full-table.sh [IPV4_PREFIXES [IPV6_PREFIXES [SECONDS_OF_CHANGES]]]
# shows: P-11
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/linux-lib.sh"

prefixes=${1:-50000} prefixes6=${2:-10000} seconds=${3:-5} rate=10000
lab_begin full-table
for node in a b; do
  n=$(number_of "$node")
  LINK_ADDRESSES[$node]="\"fd00::$n/64\""
done
linux_mirrors a
NODE_TABLES[a]+=$(printf '\n[route-table]\nmax-prefixes = 2097152\nmax-prefixes6 = 524288')
# An address in the last prefix of each family is behind node b.
last=$(python3 -c "import ipaddress; print(ipaddress.ip_address('20.0.0.1') + 256 * ($prefixes - 1))")
NODE_TABLES[b]+=$(printf '\n[[route]]\nto = "%s/32"\nvia = ["192.168.2.2"]' "$last")
scenario_up a b
ip -n "$LAB-b" address add "$last/32" dev lo

# table4, table6: the commands for ip(8) that make the table. changes: those that replace and delete routes of other
# prefixes, in steps of a tenth of a second.
table4() { python3 -c "
for i in range($prefixes): print(f'route add {20 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24 via 10.0.0.2 dev ib0')"; }
table6() { python3 -c "
for i in range($prefixes6): print(f'route add 2a00:{i >> 16:x}:{i & 0xffff:x}::/48 via fd00::2 dev ib0')"; }
changes() { python3 -c "
import sys, time
begin, step = time.monotonic(), $rate // 10
for tick in range(10 * $seconds):
    verb, end = ('replace', ' via 10.0.0.2 dev ib0') if tick % 2 == 0 else ('delete', '')
    for i in range(step): sys.stdout.write(f'route {verb} 100.{tick // 2 % 64 + 64}.{i >> 8}.{i & 255}/32{end}\n')
    sys.stdout.flush()
    time.sleep(max(0, begin + (tick + 1) / 10 - time.monotonic()))"; }
routes() { cli a "show mirror json" | json "d['routes']"; }
has_routes() { [[ $(routes) == "$1" ]]; }
snapshots() { cli a "show mirror json" | json "d['snapshots']"; }
resident() { awk '/VmRSS/ { print int($2 / 1024) " MiB" }' "/proc/${NODE_PID[a]}/status"; }
seconds_since() { echo "$((($(date +%s%N) - $1) / 1000000)) ms"; }

flow_begin there b watch eth0 192.168.2.2
flow_begin to-b a send eth0 5 192.168.2.2
wait_for 10 "the flow to host b" grep -q arrived "$LAB_DIR/there.error"

row "memory before" resident
begin=$(date +%s%N)
table4 | in_linux a ip -batch - || fail "Linux does not take the IPv4 table"
table6 | in_linux a ip -6 -batch - || fail "Linux does not take the IPv6 table"
row "Linux has $prefixes IPv4 and $prefixes6 IPv6 prefixes after" seconds_since "$begin"
wait_for 120 "the node to have the table" has_routes $((prefixes + prefixes6))
row "the node has them after" seconds_since "$begin"
row "memory with the table" resident
in_host a ping -q -c 1 -W 5 "$last" >/dev/null || fail "the last prefix is not reached"

begin=$(date +%s%N)
changes | in_linux a ip -batch - || fail "Linux does not take the changes"
row "$((rate * seconds)) changes after" seconds_since "$begin"
wait_for 60 "the node to have followed the changes" has_routes $((prefixes + prefixes6))
row "the node has followed after" seconds_since "$begin"
row "lists read from Linux" snapshots
flow_end to-b
flow_end there
row "packets to other prefixes" flow there '"%d, %d lost" % (d["packets"], d["lost"])'
expect "packets lost" "$(flow there 'd["lost"]')" 0
in_host a ping -q -c 1 -W 5 "$last" >/dev/null || fail "the last prefix is not reached after the changes"

# FRR that ends takes the whole table away.
begin=$(date +%s%N)
table4 | sed 's/add/delete/' | in_linux a ip -batch -
table6 | sed 's/add/delete/' | in_linux a ip -6 -batch -
wait_for 120 "the node to have no table" has_routes 0
row "the node has removed it after" seconds_since "$begin"
