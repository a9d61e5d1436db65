# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The functions of all scenario scripts: a fabric of up to nine nodes, each with one host behind it.
#
#   host x --- node x === Linux bridge === node y --- host y
#
# The nodes a, b, c … have the numbers n = 1, 2, 3 … A node has LID n, the address 10.0.0.n on the link and
# 192.168.n.1 towards its host 192.168.n.2, and routes to the other hosts. Node a has the subnet administrator.

# shellcheck source=config/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../config/lab.sh"
LAB_LOG_LINES=40

# The octets of Ethernet payload that a cable carries. The InfiniBand MTU of 2048 needs 2128 (README.md).
CABLE_MTU=4200
NODES=(a b c)

number_of() {
  local letters=abcdefghi before
  before=${letters%%"$1"*}
  echo $((${#before} + 1))
}
host_address() { echo "192.168.$(number_of "$1").2"; }

# A scenario's additions to the configurations of nodes, by their letters: more addresses (quoted, with commas
# between), lines of the tables, and whole tables at the end.
declare -A LINK_ADDRESSES=() PORT_ADDRESSES=() HCA_LINES=() LINK_LINES=() PORT_LINES=() NODE_TABLES=()
# lines NAME NODE: prints the entry of the array NAME for the node.
lines() {
  local -n of=$1
  [[ -z ${of[$2]:-} ]] || printf '%s\n' "${of[$2]}"
}

# management NODE: prints the lines that say how the node's port gets its LID and P_Keys. Here they are static.
management() {
  local n
  n=$(number_of "$1")
  cat <<END
guid = "0x0002c9030000000$n"
lid = $n
sm-lid = 1
subnet-administrator = $([[ $1 == a ]] && echo true || echo false)
END
}

# hca_driver NODE CABLE_DEVICE: prints the lines for the driver of the node's HCA. HCA is its name.
HCA=soft0
hca_driver() { printf 'driver = "soft"\nwire = "%s"\n' "$2"; }

# multicast_route GROUP IN OUT: prints a table for NODE_TABLES.
multicast_route() {
  printf '\n[[multicast-route]]\ngroups = "%s"\nin = "%s"\nout = ["%s"]\n' "$@"
}

# scenario_config NODE [PORT_MTU [PORT_DEVICE [CABLE_DEVICE]]]: writes $LAB_DIR/NODE.toml. The neighbour
# cache has short times, so that recovery takes seconds.
scenario_config() {
  local node=$1 n other
  n=$(number_of "$node")
  cat >"$LAB_DIR/$node.toml" <<END
[hca.$HCA]
$(hca_driver "$node" "${4:-net_af_packet1}")
$(management "$node")
$(lines HCA_LINES "$node")
[link.ib0]
hca = "$HCA"
address = ["10.0.0.$n/24"${LINK_ADDRESSES[$node]:+, ${LINK_ADDRESSES[$node]}}]
$(lines LINK_LINES "$node")
[port.eth0]
device = "${3:-net_af_packet0}"
address = ["192.168.$n.1/24"${PORT_ADDRESSES[$node]:+, ${PORT_ADDRESSES[$node]}}]
mtu = ${2:-2044}
$(lines PORT_LINES "$node")

[neighbour-cache]
reachable = 4
negative = 1
END
  for other in "${NODES[@]}"; do
    [[ $other == "$node" ]] || printf '\n[[route]]\nto = "192.168.%d.0/24"\nvia = ["10.0.0.%d"]\n' \
      "$(number_of "$other")" "$(number_of "$other")" >>"$LAB_DIR/$node.toml"
  done
  lines NODE_TABLES "$node" >>"$LAB_DIR/$node.toml"
}

# scenario_ipv6 NODE: adds IPv6 to the node. Call it before scenario_host. The node has fd00::n on the link and
# fd00:n::1 towards the host, which configures itself from router advertisements.
scenario_ipv6() {
  local node=$1 n other
  n=$(number_of "$node")
  LINK_ADDRESSES[$node]="\"fd00::$n/64\""
  PORT_ADDRESSES[$node]="\"fd00:$n::1/64\""
  PORT_LINES[$node]="router-advertisement = true"
  for other in "${NODES[@]}"; do
    [[ $other == "$node" ]] && continue
    n=$(number_of "$other")
    NODE_TABLES[$node]+=$'\n[[route]]\n'"to = \"fd00:$n::/64\""$'\n'"via = [\"fd00::$n\"]"$'\n'
  done
}

# host_ipv6 NODE: enables IPv6 in the host's kernel.
host_ipv6() { in_host "$1" sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0; }

# host_address6 NODE: prints the address that the host made from an advertised prefix. Fails until it has one.
host_address6() {
  ip -n "$LAB-$1" -6 -j address show dev eth0 scope global -tentative |
    json '[a["local"] for i in d for a in i.get("addr_info", []) if a.get("dynamic")][0]' 2>/dev/null
}

# scenario_host NODE [PORT_MTU]: creates the host and its cable. Does not start the node.
scenario_host() {
  local node=$1 n
  n=$(number_of "$node")
  lab_host "$node" "${2:-2044}"
  lab_host_address "$node" "192.168.$n.2/24" "192.168.$n.1"
  lab_cable "$node" "$CABLE_MTU"
  scenario_config "$node" "${2:-2044}"
}

# one_segment NODE NODE: the cables of the ports of both end in one bridge, br0 in the namespace of each host, which has
# no address yet. The other interface of such a namespace must not answer for br0 with the MAC address of the node.
one_segment() {
  local node
  ip -n "$LAB-$1" link add "to-$2" type veth peer name "to-$1" netns "$LAB-$2"
  for node; do
    ip -n "$LAB-$node" address flush dev eth0
    ip -n "$LAB-$node" link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
    ip -n "$LAB-$node" link set eth0 master br0
    ip -n "$LAB-$node" link set "to-$([[ $node == "$1" ]] && echo "$2" || echo "$1")" master br0 up
    ip -n "$LAB-$node" link set br0 up
    in_host "$node" sysctl -qw net.ipv4.conf.all.arp_ignore=1
  done
}

# scenario_node NODE [application argument...]: starts the node and waits until it answers.
# scenario_start does not wait.
scenario_node() {
  scenario_start "$@"
  node_ready "$1"
}
scenario_start() {
  local node=$1 devices
  shift
  read -r -d '' -a devices < <(port_device "$node"; cable_device "$node") || true
  node_start "$node" "$LAB_DIR/$node.toml" "${devices[@]}" -- "$@"
}

# ping_each_other NODE...: the host behind each node reaches those behind the others, with small and with the largest
# packets.
ping_each_other() {
  local from to
  for from; do
    for to; do
      [[ $from == "$to" ]] && continue
      row "$from to $to" ping_all "$from" "$(host_address "$to")"
      row "$from to $to, 2044 octets" ping_all "$from" "$(host_address "$to")" -M "do" -s 2016
    done
  done
}

# scenario_up NODE...: creates fabric and hosts, and starts the nodes. Returns when their links are up.
scenario_up() {
  local node
  lab_fabric "$CABLE_MTU"
  for node; do
    scenario_host "$node"
    scenario_node "$node"
  done
  for node; do
    wait_for 20 "the link of node $node to come up" link_up "$node"
  done
}

link_field() { cli "$1" "show link json" | json "d[0][\"$2\"]"; }

# drops NODE REASON: prints the packets dropped for that reason by all interfaces.
drops() {
  cli "$1" "show drops json" | json "sum(x['packets'] for x in d if x['reason'] == '$2')"
}
all_drops() { cli "$1" "show drops json" | json "sum(x['packets'] for x in d)"; }

expect() {
  local what=$1 got=$2 wanted=$3
  [[ $got == "$wanted" ]] || fail "$what: $got, expected $wanted"
}

# expect_text WHAT TEXT PATTERN: fails unless a line of TEXT matches PATTERN, an extended regular expression.
expect_text() {
  grep -qE -- "$3" <<<"$2" || fail "$1: nothing matches '$3' in: $2"
}

# flow_begin NAME HOST ARGUMENT...: starts flow.py on that host in the background and waits until it is ready.
# flow_end NAME [wait]: stops it or, with `wait`, waits until it ends.
# flow NAME EXPRESSION: evaluates an expression over the document that it printed.
declare -A FLOW_PID=()
flow_begin() {
  local name=$1 host=$2
  shift 2
  rm -f "$LAB_DIR/$name.error"  # An earlier flow may have had this name.
  ip netns exec "$LAB-$host" python3 "$(dirname "${BASH_SOURCE[0]}")/flow.py" "$@" \
    </dev/null >"$LAB_DIR/$name.flow" 2>"$LAB_DIR/$name.error" &
  FLOW_PID[$name]=$!
  LAB_PIDS+=($!)
  wait_for 10 "flow $name to begin" grep -qs ready "$LAB_DIR/$name.error"
}
flow_end() {
  [[ ${2:-} == wait ]] || kill "${FLOW_PID[$1]}"
  wait "${FLOW_PID[$1]}" || fail "flow $1: $(tail -n 3 "$LAB_DIR/$1.error")"
}
flow() { json "$2" <"$LAB_DIR/$1.flow"; }

# peer_qpn NODE ADDRESS: prints the queue pair to which the node sends packets for an address on the link.
# peer_qpn_is NODE ADDRESS QPN: succeeds if it is this one.
peer_qpn() { cli "$1" "show neigh json" | json "[x['qpn'] for x in d if x['address'] == '$2'][0]"; }
peer_qpn_is() { [[ $(peer_qpn "$1" "$2") == "$3" ]]; }

# ping_over_move PINGS SECONDS QUEUES QPN: host b pings host a, once in so many seconds, while the link of node a gets
# another number of queues. Fails if node b does not send to QPN then, if the pings end before, or if one is lost.
ping_over_move() {
  local pings=$1 interval=$2 queues=$3 qpn=$4 log=$LAB_DIR/move$3.ping pinging
  in_host b ping -c "$pings" -i "$interval" -W $((5 * LAB_PATIENCE)) "$(host_address a)" >"$log" &
  pinging=$!
  LAB_PIDS+=("$pinging")
  wait_for 5 "the first pings" grep -qs icmp_seq=20 "$log"
  expect "set link queues" "$(cli a "set link ib0 queues $queues")" ""
  wait_for 10 "node b to send to QPN $qpn" peer_qpn_is b 10.0.0.1 "$qpn"
  kill -0 "$pinging" || fail "the pings ended before node b had moved"
  wait "$pinging" || fail "$(<"$log")"
  row "pings while node a changes to $queues queues" grep -o '[0-9]* received' "$log"
  expect "pings" "$(grep -o '[0-9]* received' "$log")" "$pings received"
}

# capture_begin NODE FILE: returns when the node captures its frames. capture_end NODE: returns when the file is
# complete, and prints the number of frames.
capture_is() { [[ $(cli "$1" "show capture json" | json 'd["state"]') == "$2" ]]; }
capture_begin() {
  cli "$1" "capture start $2"
  wait_for 10 "node $1 to capture frames" capture_is "$1" running
}
capture_end() {
  cli "$1" "capture stop" >/dev/null
  wait_for 10 "the file of node $1 to be complete" capture_is "$1" "done"
  cli "$1" "show capture json" | json '"{frames} frames, {lost} lost".format(**d)'
}
