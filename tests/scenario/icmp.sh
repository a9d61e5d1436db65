#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# ICMP of a router: echo replies from each of its addresses, time exceeded, host and net unreachable, and fragmentation
# needed with the right MTU. Packets without DF are fragmented. Broadcasts to a prefix leave where that is allowed.
# shows: U-03, U-15
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin icmp
lab_fabric "$CABLE_MTU"
scenario_host a
scenario_host b 1500
# The next hop of this route does not exist.
printf '\n[[route]]\nto = "192.168.9.0/24"\nvia = ["10.0.0.9"]\n' >>"$LAB_DIR/a.toml"
for node in a b; do scenario_node "$node"; done
for node in a b; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

for address in 192.168.1.1 10.0.0.1 10.0.0.2 192.168.2.1; do
  row "$address" ping_all a "$address"
done
ping_all a "$(host_address b)"

# error_to ADDRESS PATTERN [ping argument...]: ping must report an error that matches PATTERN.
error_to() {
  local address=$1 pattern=$2 report
  shift 2
  report=$(in_host a ping -n -c 3 -i 0.3 -w 8 "$@" "$address" 2>&1) || true
  expect_text "ping $* $address" "$report" "$pattern"
  grep -E -m 1 -- "$pattern" <<<"$report"
}
error_to 192.168.2.2 'From 192\.168\.1\.1 .*Time to live exceeded' -t 1
error_to 192.168.2.2 'From 10\.0\.0\.2 .*Time to live exceeded' -t 2
error_to 192.168.9.1 'From 192\.168\.1\.1 .*Destination Host Unreachable' -W 6
error_to 192.168.2.77 'From 10\.0\.0\.2 .*Destination Host Unreachable' -W 6
error_to 172.16.0.1 'From 192\.168\.1\.1 .*Destination Net Unreachable'
error_to 192.168.2.2 'From 10\.0\.0\.2 .*Frag needed and DF set \(mtu = 1500\)' -M "do" -s 2016
in_host a ip route flush cache
row "fragmented by node b" ping_all a 192.168.2.2 -M dont -s 2016

# broadcast_to ADDRESS: the hosts that answer two pings to the address.
broadcast_to() { in_host a ping -n -c 2 -i 0.05 -W 1 "$1" 2>&1 | grep -o "from [0-9.]*" || true; }
dropped_by_b() { expect_text "drops of node b" "$(cli b "show drops")" "ip_broadcast +ib0 +$1"; }
in_host b sysctl -qw net.ipv4.icmp_echo_ignore_broadcasts=0
expect "answers to a broadcast by default" "$(broadcast_to 192.168.2.255)" ""
dropped_by_b 2
cli b "set directed-broadcast eth0 on"
expect_text "answers to a broadcast" "$(broadcast_to 192.168.2.255)" "from 192.168.2.2"
cli a "set directed-broadcast ib0 on"
expect "answers of node b" "$(broadcast_to 10.0.0.255)" ""
dropped_by_b 4  # it is a member of the broadcast group, and answers none
