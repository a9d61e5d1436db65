#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Connected mode between three nodes: a and b use RC, then UC, and node c has datagrams only. Packets of 7,928 octets
# pass unfragmented over a connection; without one they are rejected with the MTU of 2044. With RC the ports have TCP
# offload: node a merges TCP segments into large packets for its connection, and node b segments them again. tshark
# finds no fault in the frames of the fabric.
# shows: C-08 C-09 C-11 C-12
set -euo pipefail
source "$(dirname "$0")/lib.sh"

HOST_MTU=8000
SIZES=blocksz=8192,framesz=8192,framecnt=1024
port_device() { echo "--vdev=net_af_packet0,iface=$(port_name "$1"),$SIZES"; }

# connections NODE EXPRESSION: evaluates an expression over the rows d of `show connection`.
# connected NODE NUMBER: succeeds if so many connections are established and used for sending.
connections() { cli "$1" "show connection json" | json "$2"; }
connected() { [[ $(connections "$1" "sum(r['state'] == 'established' and r['sending'] for r in d)") == "$2" ]]; }
mode_of() { cli "$1" "show neigh json" | json "[r['mode'] for r in d if r['address'] == '$2'][0]"; }
segments() { cli "$1" "show fwd stats all json" | json "sum(w['$2'] for w in d['lcores']) > 0"; }
large() { ping_all "$1" "$(host_address "$2")" -M "do" -s 7900; }

for host in a b c; do NODE_TABLES[$host]=$'\n[worker]\nmbuf-size = 8448\n'; done
lab_begin connected
lab_fabric "$CABLE_MTU"
for host in a b c; do
  scenario_host "$host" "$HOST_MTU"
done

for mode in rc uc; do
  for host in a b; do
    LINK_LINES[$host]="mode = \"connected-$mode\""
    PORT_LINES[$host]="tcp-offload = $([[ $mode == rc ]] && echo true || echo false)"
  done
  for host in a b c; do
    scenario_config "$host" "$HOST_MTU"
    scenario_node "$host"
  done
  for host in a b c; do wait_for 20 "the link of node $host to come up" link_up "$host"; done
  expect "connections before any traffic" "$(connections a "len(d)")" 0
  capture=$LAB_DIR/$mode.erf.pcap
  capture_begin a "$capture"

  ping_all a "$(host_address b)"
  ping_all c "$(host_address a)"
  for host in a b; do wait_for 10 "node $host to send by its connection" connected "$host" 1; done
  expect "how a reaches b" "$(mode_of a 10.0.0.2)" "${mode^^}"
  expect "how a reaches c" "$(mode_of a 10.0.0.3)" UD
  expect "connections of the node without" "$(connections c "len(d)")" 0
  expect "mtu of the connection" "$(connections a "d[0]['mtu']")" 65520

  large a b
  large b a
  in_host a ping -q -c 1 -W 1 -M "do" -s 7900 "$(host_address c)" >/dev/null &&
    fail "a packet of 7928 octets reached the node without connections"
  expect_text "route of host a to host c" "$(ip -n "$LAB-a" route get "$(host_address c)")" "mtu 2044"
  in_host a ip route flush cache
  in_host a ping -q -c 3 -i 0.2 -W 1 -s 4000 -M dont "$(host_address c)" >/dev/null ||
    fail "fragments did not reach the node without connections"
  capture_end a >/dev/null

  iperf_server b
  row "$mode: iperf3 TCP, host MTU $HOST_MTU" tcp_rate a "$(host_address b)" 3
  whole=$([[ $mode == rc ]] && echo True || echo False)
  expect "segments merged by node a" "$(segments a gro_segments)" "$whole"
  expect "packets cut by node b" "$(segments b gso_packets)" "$whole"
  iperf_server c
  row "$mode: iperf3 TCP to the node without" tcp_rate a "$(host_address c)" 3
  row "$mode: iperf3 UDP, 50 Mbit/s offered" udp_rate a "$(host_address b)" 3 50

  judge() { tshark -r "$capture" "$@" 2>/dev/null; }
  # tshark takes the first frame of a message for the whole message.
  faults=$(judge -Y '(_ws.malformed || _ws.expert.severity == 8388608) &&
    !(ip.bogus_ip_length && infiniband.bth.opcode in {0,32})')
  [[ -z $faults ]] || fail "tshark finds fault with: $(head -n 5 <<<"$faults")"
  for message in ConnectRequest ConnectReply ReadyToUse; do
    expect_text "messages of the communication manager" "$(judge -Y 'infiniband.mad.mgmtclass == 7')" "$message"
  done
  [[ -n $(judge -Y "infiniband.bth.opcode >= $([[ $mode == rc ]] && echo 0 || echo 32) && infiniband.bth.opcode < $([[ $mode == rc ]] && echo 32 || echo 64)") ]] ||
    fail "no packet of an $mode queue pair in the capture"

  id=$(connections a "d[0]['id']")
  cli a "connection close ib0 $id" >/dev/null
  ping_all a "$(host_address b)"
  wait_for 10 "another connection" connected a 1
  [[ $(connections a "d[0]['id']") != "$id" ]] || fail "connection $id is still there"

  for host in c b; do node_stop "$host" || fail "node $host ended with status $?"; done
  wait_for 5 "node a to let go of what node b ended" connected a 0
  node_stop a || fail "node a ended with status $?"
done
