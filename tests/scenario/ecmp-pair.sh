#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two gateways, nodes a and b, forward between a leaf switch (a kernel router with FRR) and node c on the fabric, both
# at the same time: BGP with BFD and equal-cost paths. Node a drains and is stopped, is started, drains and returns:
# no packet is lost. When it is killed, its flows move to node b, and those of node b are not disturbed.
#
#   server --- leaf === eth0 [a, b] ib0 === ib0 [c] eth0 --- host c
#
# shows: P-11, P-17, P-18
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/linux-lib.sh"

FLOWS=16   # in each direction
PERIOD=20  # ms between two packets of a flow

lab_begin ecmp-pair
lab_fabric "$CABLE_MTU"
NODES=()
# bgp NAME AS NETWORK PEER=AS...: writes $LAB_DIR/NAME.frr. NETWORK may be empty.
bgp() {
  local name=$1 as=$2 network=$3 peer
  shift 3
  {
    printf 'hostname %s\nbfd\n profile pair\n  transmit-interval 150\n  receive-interval 150\n' "$name"
    printf 'router bgp %s\n no bgp ebgp-requires-policy\n bgp bestpath as-path multipath-relax\n' "$as"
    printf ' bgp router-id 10.255.0.%s\n' "${as#6500}"
    for peer; do
      printf ' neighbor %s remote-as %s\n neighbor %s bfd profile pair\n' "${peer%=*}" "${peer#*=}" "${peer%=*}"
      printf ' neighbor %s timers connect 1\n neighbor %s advertisement-interval 0\n' "${peer%=*}" "${peer%=*}"
    done
    printf ' address-family ipv4 unicast\n  maximum-paths 8\n'
    [[ -z $network ]] || printf '  network %s\n' "$network"
  } >"$LAB_DIR/$name.frr"
}
bgp a 65001 "" 192.168.1.2=65009 10.0.0.3=65003
bgp b 65002 "" 192.168.2.2=65009 10.0.0.3=65003
bgp c 65003 192.168.3.0/24 10.0.0.1=65001 10.0.0.2=65002
bgp leaf 65009 192.168.100.0/24 192.168.1.1=65001 192.168.2.1=65002

for node in a b c; do
  linux_mirrors "$node" "drain-hold = 10"
  scenario_host "$node"
done
lab_space leaf-linux
lab_space server
for node in a b; do
  ip -n "$LAB-$node" link set eth0 netns "$LAB-leaf-linux" name "to-$node"
  ip -n "$LAB-leaf-linux" address add "192.168.$(number_of "$node").2/24" dev "to-$node"
  ip -n "$LAB-leaf-linux" link set "to-$node" up
done
ip -n "$LAB-leaf-linux" link add to-server type veth peer name eth0 netns "$LAB-server"
ip -n "$LAB-leaf-linux" address add 192.168.100.1/24 dev to-server
ip -n "$LAB-leaf-linux" link set to-server up
ip -n "$LAB-server" link set eth0 up
in_host leaf-linux sysctl -qw net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1
# The hosts have an address for each flow.
TO_SERVER=() TO_HOST=()
for ((i = 2; i < FLOWS + 2; ++i)); do
  TO_SERVER+=("192.168.100.$i") TO_HOST+=("192.168.3.$i")
  ip -n "$LAB-server" address add "192.168.100.$i/24" dev eth0
  ((i == 2)) || ip -n "$LAB-c" address add "192.168.3.$i/24" dev eth0
done
ip -n "$LAB-server" route add default via 192.168.100.1
for node in a b c; do scenario_node "$node"; done
for node in a b c; do wait_for 20 "the link of node $node to come up" link_up "$node"; done
for name in a b c leaf; do
  for daemon in zebra bfdd bgpd; do frr_start "$name" "$daemon"; done
done

# ways N: leaf and node c have N ways to each other.
ways() {
  [[ $(ip -n "$LAB-leaf-linux" -j route show 192.168.3.0/24 | json 'sum(len(r.get("nexthops", [r])) for r in d)') == "$1" ]] &&
    [[ $(cli c "show route json" | json 'sum(len(r["via"]) for r in d if r["to"] == "192.168.100.0/24")') == "$1" ]]
}
bfd_up() { frr "$1" "show bfd peers json" | json '[p["status"] for p in d] == ["up", "up"] or sys.exit(1)'; }
wait_for 60 "both ways" ways 2
for name in leaf c; do wait_for 30 "BFD of $name" bfd_up "$name"; done
row "the leaf" in_host leaf-linux ip route show 192.168.3.0/24

reached() { in_host "$1" ping -q -c 1 -W 1 "$2"; }
for address in "${TO_HOST[@]}"; do wait_for 10 "the server to reach $address" reached server "$address"; done
for address in "${TO_SERVER[@]}"; do wait_for 10 "host c to reach $address" reached c "$address"; done

flows_begin() {
  flow_begin there c flows eth0 "${TO_HOST[@]}"
  flow_begin back leaf-linux flows any "${TO_SERVER[@]}"
  flow_begin leave leaf-linux departures any "${TO_HOST[@]}"
  flow_begin to-host server send eth0 "$PERIOD" "${TO_HOST[@]}"
  flow_begin to-server c send eth0 "$PERIOD" "${TO_SERVER[@]}"
  wait_for 10 "the flows to host c" grep -q arrived "$LAB_DIR/there.error"
  wait_for 10 "the flows to the server" grep -q arrived "$LAB_DIR/back.error"
}
flows_end() {
  flow_end to-host
  flow_end to-server
  reached server "${TO_HOST[0]}" >/dev/null
  reached c "${TO_SERVER[0]}" >/dev/null
  flow_end there
  flow_end back
  flow_end leave
}
# lost FLOWS: packets that were sent and did not arrive.
lost() {
  local sent=$1 seen=$2
  echo $(($(flow "$sent" 'sum(d.values())') - $(flow "$seen" 'sum(f["packets"] for f in d.values())')))
}
no_loss() {
  for pair in "to-host there" "to-server back"; do
    read -r sent seen <<<"$pair"
    row "$1, $sent" printf '%s lost of %s, longest gap %s ms\n' "$(lost "$sent" "$seen")" \
      "$(flow "$sent" 'sum(d.values())')" "$(flow "$seen" 'max(f["longest_gap_ms"] for f in d.values())')"
    expect "$1, $sent: lost packets" "$(lost "$sent" "$seen")" 0
  done
}
drain_is() { [[ $(cli "$1" "show mirror json" | json 'd["drain"]') == "$2" ]]; }

flows_begin
cli a "set node drain"
wait_for 20 "one way" ways 1
node_stop a
flows_end
no_loss "drained and stopped"

flows_begin
scenario_node a
wait_for 60 "both ways after the start" ways 2
for name in leaf c; do wait_for 30 "BFD of $name" bfd_up "$name"; done
flows_end
no_loss "started"

flows_begin
cli a "set node drain"
wait_for 20 "one way" ways 1
cli a "set node undrain"
wait_for 60 "both ways after the drain" ways 2
wait_for 30 "the end of the drain" drain_is a off
flows_end
no_loss "drained and returned"

for name in leaf c; do wait_for 30 "BFD of $name" bfd_up "$name"; done
flows_begin
node_kill a
wait_for 20 "one way" ways 1
flows_end
# A flow is of the node through which its first packet went.
for flow in there back; do
  python3 - "$LAB_DIR/$flow.flow" "$LAB_DIR/$([[ $flow == there ]] && echo leave || echo back).flow" \
    >"$LAB_DIR/$flow.nodes" <<'END'
import json
import sys

seen, ways = (json.load(open(name)) for name in sys.argv[1:])
of = {way: [seen[a] for a in seen if ways[a]["by"] == way] for way in ("to-a", "to-b")}
print(json.dumps({way: {"flows": len(f), "lost": sum(x["lost"] for x in f),
                        "gap": max((x["longest_gap_ms"] for x in f), default=0)} for way, f in of.items()}))
END
  for node in a b; do
    row "node a was killed, $flow by node $node" json \
      '"{flows} flows: {lost} lost, longest gap {gap} ms".format(**d["to-'"$node"'"])' <"$LAB_DIR/$flow.nodes"
    json 'd["to-'"$node"'"]["flows"] > 0 or sys.exit(1)' <"$LAB_DIR/$flow.nodes" >/dev/null ||
      fail "no flow $flow went by node $node"
  done
  expect "lost packets $flow by node b" "$(json 'd["to-b"]["lost"]' <"$LAB_DIR/$flow.nodes")" 0
  json 'd["to-a"]["lost"] > 0 or sys.exit(1)' <"$LAB_DIR/$flow.nodes" >/dev/null ||
    fail "flows $flow by node a lost nothing, though it was killed"
done
