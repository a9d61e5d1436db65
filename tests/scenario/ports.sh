#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Stops and starts ports and links with the commands of dpdk-testpmd while packets flow. Every packet arrives or is
# counted as lost. Changes MTUs and promiscuous mode of running interfaces.
# shows: P-04, P-08
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin ports
# In addition to the port of its host, node a has one on a TAP, a device whose stop the kernel sees.
port_device() {
  echo "--vdev=net_af_packet0,iface=$(port_name "$1"),$AF_PACKET_SIZES"
  [[ $1 != a ]] || echo "--vdev=net_tap0,iface=tap0"
}
NODE_TABLES[a]='
[port.eth1]
device = "net_tap0"
address = ["192.168.9.1/24"]'
NODES=(a b)
scenario_up a b
ping_once() { in_host "$1" ping -q -c 1 -W 1 "$2"; }
passes() { wait_for 20 "packets to pass again after: $1" ping_once a "$(host_address b)"; }
port_field() { cli "$1" "show port info $2 json" | json "d[0][\"$3\"]"; }
# xstat NODE NAME COUNTER: prints an extended statistic of an interface.
xstat() { cli "$1" "show port xstats $2 json" | json "d[0][\"xstats\"][\"$3\"]"; }
passes "start"

# grows NODE REASON: waits until more packets are dropped for that reason.
grows() {
  local before
  before=$(drops "$1" "$2")
  wait_for 10 "packets at node $1 to be counted as $2" more_than "$1" "$2" "$before"
}
more_than() { (($(drops "$1" "$2") > $3)); }

# With a permanent neighbour, host a continues to send without ARP.
in_host a ip neighbour replace 192.168.1.1 lladdr "$(port_field a eth0 mac)" dev eth0 nud permanent
flow_begin seen b watch eth0 "$(host_address b)"
flow_begin sent a send eth0 5 "$(host_address b)"
wait_for 10 "the flow to arrive" grep -q arrived "$LAB_DIR/seen.error"
for _ in 1 2 3; do
  cli a "port stop eth0"
  expect "state of the stopped port" "$(port_field a eth0 state)" stopped
  expect "its device is started" "$(port_field a eth0 started)" False
  received=$(xstat a eth0 rx_good_packets)
  ping_once a "$(host_address b)" >/dev/null && fail "packets pass a stopped port"
  expect "packets received while it is stopped" "$(xstat a eth0 rx_good_packets)" "$received"
  answer=$(cli a "link up eth0") && fail "a stopped port came up: $answer"
  before=$(drops a link_down)
  cli a "port start eth0"
  (($(drops a link_down) > before)) || fail "what a stopped port had received is not counted"
  passes "port stop|start eth0 at node a"

  cli b "port stop eth0"
  grows b link_down
  cli b "port start eth0"
  passes "port stop|start eth0 at node b"

  cli a "port stop ib0"
  grows a link_down
  cli a "port start ib0"
  passes "port stop|start ib0"

  cli a "port stop all" "port start all"
  passes "port stop|start all"
done
flow_end sent
passes "the last packet"
flow_end seen
sent=$(flow sent 'sum(d.values())') seen=$(flow seen 'd["packets"]')
counted=$(($(all_drops a) + $(all_drops b)))
say "$sent packets sent, $seen arrived, $counted counted as lost"
((seen < sent)) || fail "nothing was lost, though ports were stopped"
((sent - seen <= counted)) || fail "$((sent - seen)) packets lost, only $counted counted"
ping_all a "$(host_address b)"

# When this device stops, the kernel sees its end of the TAP go down.
tap_up() { ip -n "$LAB-a" -j link show dev tap0 | json '"UP" in d[0]["flags"]' | grep -q True; }
tap_down() { ! tap_up; }
wait_for 5 "the TAP to be up" tap_up
cli a "port stop eth1"
wait_for 5 "the TAP to go down" tap_down
cli a "port start eth1"
wait_for 5 "the TAP to come up" tap_up
answer=$(cli a "set port eth1 mtu 3000") && fail "a TAP takes 3000 octets: $answer"
expect_text "set port eth1 mtu 3000" "$answer" '^error: net_tap0 supports an MTU of 1500, but 3000 is required'
wait_for 5 "the TAP to be up still" tap_up
cli a "set port eth1 mtu 1400"
expect "MTU of the port" "$(port_field a eth1 mtu)" 1400
for mode in on off; do
  cli a "set promisc eth1 $mode"
  expect "promiscuous" "$(port_field a eth1 promiscuous)" "$([[ $mode == on ]] && echo True || echo False)"
done

# After a change of a link's MTU, hosts learn the new MTU.
large() { in_host a ping -q -c 1 -W 2 -M "do" -s 1600 "$(host_address b)"; }
large >/dev/null || fail "1628 octets do not pass"
cli a "set link ib0 mtu 1400"
expect "MTU of the link" "$(link_field a mtu)" 1400
answer=$(in_host a ping -c 2 -W 5 -M "do" -s 1600 "$(host_address b)" 2>&1) && fail "1628 octets pass 1400"
expect_text "ping of 1628 octets" "$answer" 'mtu ?= ?1400'
in_host a ip route flush cache
ping_all a "$(host_address b)" -M dont -s 1600
cli a "port config mtu ib0 2044"
in_host a ip route flush cache
wait_for 10 "1628 octets to pass again" large
# refused COMMAND PATTERN: the command must fail with an answer that matches PATTERN.
refused() {
  local answer
  answer=$(cli a "$1") && fail "no error from '$1': $answer"
  expect_text "'$1'" "$answer" "$2"
}
refused "set link ib0 mtu 2045" '^error: .*allowed: 68-2044, limited by its broadcast group'
refused "set link ib0 mtu 67" '"67": expected MTU \(68-65520\)'
refused "set port eth0 mtu 9000" '^error: '
refused "set port ib0 mtu 1500" '^error: no ib0; available: eth0, eth1'
refused "port stop eth7" '^error: no eth7; available: ib0, eth0, eth1'
refused "port bogus eth0" 'word 2 "bogus": expected one of stop, start, config'

# The clear commands clear the counters of one port, or of all.
(($(xstat a ib0 tx_good_packets) > 0 && $(xstat a eth0 rx_good_packets) > 0)) || fail "nothing is counted"
cli a "clear port xstats eth0"
expect "after clear port xstats eth0" "$(xstat a eth0 rx_drop_ip_no_route)" 0
(($(xstat a ib0 tx_good_packets) > 20)) || fail "ib0 was cleared with eth0"
cli a "clear port stats all"
(($(xstat a ib0 tx_good_packets) <= 20)) || fail "clear port stats all did not clear ib0"
expect_text "show port summary all" "$(cli a "show port summary all")" '^eth1 .*net_tap .* 1400 '
