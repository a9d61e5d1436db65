#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Faults of a verbs device under traffic, on a real kernel: a queue pair fails, a port goes down, a device is removed
# and added again. The modes are datagrams and connected. The node reports the fault and continues with the rest, and
# its link recovers by itself.
# shows: P-02, C-15
set -euo pipefail
source "$(dirname "$0")/lib.sh"

hca_field() { cli "$1" "show hca json" | json "d[0]['$2']"; }
link_down() { [[ $(link_field "$1" state) != up ]]; }
misses() { [[ $(hca_field "$1" problem) == "no device $(rxe_device "$1"); "* ]]; }
# restarts NODE: prints how often the node has restarted a failed queue pair.
restarts() { grep -cE 'queue pair 0x[0-9a-f]+ failed .*restarting it' "$LAB_DIR/$1.log" || true; }
restarted() { (($(restarts "$1") > $2)); }

# healed WHAT BEGIN_MS: waits until both links are up and packets pass in both directions.
healed() {
  local node
  for node in a b; do links_up "$node"; done
  wait_for 15 "traffic after: $1" reaches a b
  say "$1: traffic again after $(($(now_ms) - $2)) ms"
  ping_all a "$(host_address b)" >/dev/null
  ping_all b "$(host_address a)" >/dev/null
  [[ $mode == datagram ]] || for node in a b; do wait_for 15 "a connection of node $node" connected "$node" 1; done
}

# The node whose device is removed, by mode. Host a sends to host b all the time.
declare -A REMOVED=([datagram]=b [connected-rc]=a)

# Receive buffers are smaller than the 4096 octets that the cable carries.
for node in a b; do NODE_TABLES[$node]=$'\n[worker]\nmbuf-size = 3072\n'; done
vm_begin vm-faults
for mode in datagram connected-rc; do
  for node in a b; do LINK_LINES[$node]="mode = \"$mode\""; done
  vm_up
  healed "$mode, start" "$(now_ms)"
  flow_begin traffic a send eth0 20 "$(host_address b)"

  before=$(restarts b)
  begin=$(now_ms)
  "$(dirname "$0")/send_long.py" "$(rxe_device a)" fe80::ff:fe00:102 \
    "$(link_field b qpn)" "$(link_field b qkey)" 4000
  wait_for 10 "node b to notice" restarted b "$before"
  healed "$mode, queue pair of node b failed" "$begin"

  # This test does not depend on the mode.
  if [[ $mode == datagram ]]; then
    ip link set "$(cable_name b)" down
    for node in a b; do wait_for 10 "the link of node $node to go down" link_down "$node"; done
    expect_text "what node b says" "$(hca_field b problem)" 'the port is down'
    begin=$(now_ms)
    ip link set "$(cable_name b)" up
    healed "$mode, port down and up" "$begin"
  fi

  node=${REMOVED[$mode]}
  begin=$(now_ms)
  timeout 40 rdma link delete "$(rxe_device "$node")" || fail "node $node does not let go of its device"
  say "$mode, device of node $node let go after $(($(now_ms) - begin)) ms"
  wait_for 10 "the link of node $node to go down" link_down "$node"
  wait_for 10 "node $node to look for the device" misses "$node"
  begin=$(now_ms)
  rxe_add "$node"
  healed "$mode, device of node $node is back" "$begin"

  flow_end traffic
  vm_stop
done
