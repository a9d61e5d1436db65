# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions of all lab scripts: the scenarios' nodes, each with its host, on a subnet that OpenSM manages.
#
#   H1 OpenSM ─┐                 ┌─ H5 tools: saquery, ibroute, smpquery
#   H2 node a ─┤ switch S1 ═══ S2┤
#   H3 node b ─┤                 └─ H6 a second OpenSM
#   H4 node c ─┘
#
# ibsim simulates the subnet. A process that loads libumad2sim before libc sends and receives MADs as the
# simulated channel adapter that it names. Data packets cross a Linux bridge, as in the scenarios. ibsim,
# OpenSM and the nodes share a network namespace, because the name of ibsim's socket belongs to it.
#
# The simulator (ibsim 0.10) does not have these features, so no script here tests them: answers of several
# segments (256 octets arrive: three member records), MTU 4096, ClientReregister, more than ten clients,
# time-outs of requests. A node's Reports need IsSM (SIM_SET_ISSM), which OpenSM takes for a subnet manager.
# OpenSM ignores other subnet managers, except in scripts that run two.

LAB_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/scenario/lib.sh
source "$LAB_SOURCE/../scenario/lib.sh"
# The guard keeps libumad2sim from ending a process by a MAD that comes while the process stops.
UMAD2SIM=$IPOIB_BUILD/tests/lab/umad2sim_guard.so:/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so

# The place and the names of a node: nodes a, b, c are at H2, H3, H4.
ca_of() { echo "H$(($(number_of "$1") + 1))"; }
node_space() { echo "$LAB-fabric"; }
port_name() { echo "port-$1"; }
cable_name() { echo "ib-$1"; }
# net_af_packet numbers its fanout group, which is the namespace's, by the process and the interface, one
# exclusive-ored with the other: neighbours among both would meet.
interface_index() {
  local n
  n=$(number_of "${1#*-}")
  [[ $1 == port-* ]] || n=$((n + 8))
  echo "index $((n << 12))"
}
management() { echo 'mad = "umad:ibsim0:1"'; }
# Port GUID and GID of a simulated channel adapter, which ibsim numbers in the order of the file.
port_guid() { printf '0x%x' $((0x100001 + 2 * (${1#H} - 1))); }
port_gid() { printf 'fe80::10:%x' $((1 + 2 * (${1#H} - 1))); }

# at_port CA COMMAND...: as a process whose InfiniBand port is that channel adapter's.
at_port() {
  local ca=$1 place
  shift
  place=$LAB_DIR/at-$ca  # libumad2sim leaves files in the working directory of what is killed.
  mkdir -p "$place"
  cd "$place" || exit
  exec ip netns exec "$LAB-fabric" env LD_PRELOAD="$UMAD2SIM" SIM_HOST="$ca" "$@"
}
NODE_ISSM=1  # empty: nodes have no IsSM
node_exec() {
  local node=$1
  shift
  [[ -z $NODE_ISSM ]] || export SIM_SET_ISSM=1
  at_port "$(ca_of "$node")" "$@"
}
# ask COMMAND...: a tool of infiniband-diags, from outside.
ask() { (at_port H5 "$@"); }
# ask_each COMMAND...: likewise, with one more argument from each line of standard input, four at a time: most
# of what a tool takes is waiting for the simulator.
ask_each() {
  (cd "$LAB_DIR" && ip netns exec "$LAB-fabric" xargs -P 4 -n 1 env LD_PRELOAD="$UMAD2SIM" SIM_HOST=H5 "$@")
}

# subnet_begin [TOPOLOGY]: starts the switches without a subnet manager.
subnet_begin() {
  # The loader goes on without a library that is missing.
  [[ -e ${UMAD2SIM%%:*} ]] || fail "${UMAD2SIM%%:*} is not built"
  lab_fabric "$CABLE_MTU"
  # ibsim waits for a client whose queue is full; a stopped OpenSM would stop the simulator.
  ip netns exec "$LAB-fabric" sysctl -qw net.unix.max_dgram_qlen=4096
  mkfifo "$LAB_DIR/console"
  LAB_LOGS+=(ibsim)
  ip netns exec "$LAB-fabric" ibsim -s -N 8192 -S 1024 -P 120000 \
    "${1:-$LAB_SOURCE/small.net}" <>"$LAB_DIR/console" >"$LAB_DIR/ibsim.log" 2>&1 &
  LAB_LAST_PIDS+=($!)
  wait_for 10 "the simulator to be ready" grep -q 'simulator ready' "$LAB_DIR/ibsim.log"
}
# simulator COMMAND: on ibsim's console.
simulator() { echo "$1" >"$LAB_DIR/console"; }
# The simulator keeps the place of a killed process, and with it the only IsSM of the port, until its console
# disconnects the process or a MAD to it fails. Its number is read while it lives, because that MAD may come first.
node_kill() {
  local pid=${NODE_PID[$1]} client
  simulator Attached
  wait_for 5 "the simulator to list its clients" client_of "$pid"
  client=$(client_of "$pid")
  kill -9 "$pid"
  wait "$pid" 2>/dev/null || true
  unset "NODE_PID[$1]"
  simulator "X $client"
}
client_of() { sed -nE "s/^(sim> )?Client ([0-9]+): pid $1 .*/\2/p" "$LAB_DIR/ibsim.log" | grep -m 1 .; }

unlink_ca() { simulator "Unlink \"$1\"[1]"; }
relink_ca() { simulator "Relink \"$1\"[1]"; }

# sm_start [NAME [CA [argument...]]]: OpenSM, by default the one at H1, which ignores others. Partitions
# are those of $LAB_DIR/partitions.conf.
declare -A SM_PID=()
sm_start() {
  local name=${1:-sm} ca=${2:-H1}
  if (($# > 2)); then shift 2; else set -- -d 0; fi
  [[ -e $LAB_DIR/partitions.conf ]] || partitions
  [[ " ${LAB_LOGS[*]} " == *" $name "* ]] || LAB_LOGS+=("$name")
  touch "$LAB_DIR/$name.log"
  # A cache of LIDs that outlives the process would say where ports were before.
  rm -rf "${LAB_DIR:?}/$name.cache"
  OSM_CACHE_DIR=$LAB_DIR/$name.cache OSM_TMP_DIR=$LAB_DIR at_port "$ca" \
    opensm -F "$LAB_SOURCE/opensm.conf" -f "$LAB_DIR/$name.log" \
    -P "$LAB_DIR/partitions.conf" "$@" </dev/null >"$LAB_DIR/$name.out" 2>&1 &
  SM_PID[$name]=$!
  LAB_PIDS+=($!)
}
sm_signal() { kill "-$1" "${SM_PID[${2:-sm}]}"; }
# sm_kill [NAME]: SIGKILL. The log is kept under another name, so that it does not mix with that of a later start.
sm_kill() {
  local name=${1:-sm}
  kill -9 "${SM_PID[$name]}"
  wait "${SM_PID[$name]}" 2>/dev/null || true
  cat "$LAB_DIR/$name.log" >>"$LAB_DIR/$name.before"
  rm "$LAB_DIR/$name.log"
}
# sm_said PATTERN [NAME]
sm_said() { grep -qE -- "$1" "$LAB_DIR/${2:-sm}.log"; }
# no_complaints [NAME]: OpenSM refused nothing, missed no answer and understood everything. ERR 4307 may be there once: a
# node on a busy machine repeats a request whose answer is late, and OpenSM does not know the subscription any more that
# the first one ended.
no_complaints() {
  local complaints repeated
  complaints=$(grep ' ERR ' "$LAB_DIR/${1:-sm}.log" || true)
  repeated=$(grep -c ' ERR 4307: ' <<<"$complaints" || true)
  ((repeated > 1)) || complaints=$(grep -v ' ERR 4307: ' <<<"$complaints" || true)
  [[ -z $complaints ]] || fail "OpenSM: $complaints"
}
# subnet_up [NAME]: waits for the sweep of an OpenSM that was just started.
subnet_up() { wait_for 20 "OpenSM ${1:-} to bring the subnet up" sm_said "SUBNET UP" "${1:-sm}"; }

# partitions [LINE...]: writes partitions.conf: everybody in the default partition, and those lines.
partitions() {
  {
    echo 'Default=0x7fff, ipoib, Q_Key=0x80010b1b, mtu=4, rate=3, sl=0, defmember=full : ALL=full, SELF=full ;'
    printf '%s\n' "$@"
  } >"$LAB_DIR/partitions.conf"
}

# lab_up NODE...: the subnet, OpenSM, hosts, and nodes with their links up.
lab_up() {
  subnet_begin
  sm_start
  subnet_up
  nodes_up "$@"
}
nodes_up() {
  local node
  for node; do scenario_host "$node"; done
  for node; do scenario_start "$node"; done
  for node; do node_ready "$node"; done
  for node; do wait_for 20 "the links of node $node to come up" links_up "$node"; done
}
links_up() { [[ $(cli "$1" "show link json" | json '{x["state"] for x in d}') == "{'up'}" ]]; }

now_ms() { echo $(($(date +%s%N) / 1000000)); }
# took BEGIN_MS
took() { echo "$(($(now_ms) - $1)) ms"; }
# timed SECONDS WHAT COMMAND...: waits, and says how long (to a tenth of a second).
timed() {
  local begin
  begin=$(now_ms)
  wait_for "$@"
  say "$2: $(took "$begin")"
}


# held: memberships that OpenSM holds, one "MGID PORTGID JOINSTATE" a line, sorted. It is asked MLID by MLID:
# of a longer table, and of the fourth member of a group, the simulator would tell nothing.
MLIDS_ASKED=24
held() {
  seq $((0xc000)) $((0xc000 + MLIDS_ASKED - 1)) | ask_each saquery --smkey 1 --timeout 5000 MCMR --mlid |
    awk -F'[.][.]+' '$1 ~ /MGID/ { mgid = $2 } $1 ~ /PortGid/ { gid = $2 }
      $1 ~ /JoinState/ { print mgid, gid, index("123456789abcdef", substr($2, 3)) }' | sort
}
# believed NODE...: those that the nodes say they have, likewise.
believed() {
  local node
  for node; do
    cli "$node" "show link json" "show group json" | python3 -c 'import json, sys
links, groups = map(json.loads, sys.stdin)
gid = {l["name"]: l["gid"] for l in links}
for l in links:
    if l["state"] == "up": print(l["broadcast_mgid"], l["gid"], 1)
for g in groups:
    if g["join_state"]: print(g["lladdr"], gid[g["iface"]], g["join_state"])'
  done | sort
}
# agreed NODE...: whether OpenSM holds the memberships of these nodes exactly, and no others; they are in HELD.
agreed() {
  HELD=$(held) && [[ $HELD == "$(believed "$@")" ]]
}
# agreed_within SECONDS NODE...: waits for it and says how long it took; what differs is in the failure.
agreed_within() {
  local seconds=$1 begin
  shift
  begin=$(now_ms)
  wait_for "$seconds" "" agreed "$@" ||
    fail "OpenSM holds (<), nodes say (>): $(differs "$HELD" "$(believed "$@")")
$(for node; do cli "$node" "show link" "show group" "show sa"; done)"
  say "OpenSM holds what nodes $* say, $(wc -l <<<"$HELD") memberships: $(took "$begin")"
}
# held_again SECONDS WHAT BEFORE BEGIN_MS: waits until OpenSM holds again what it held before.
held_again() {
  holds() { HELD=$(held) && [[ $HELD == "$1" ]]; }
  wait_for "$1" "" holds "$3" || fail "$2: was held (<), is held (>): $(differs "$3" "$HELD")"
  say "$2: all $(wc -l <<<"$3") memberships back after $(took "$4")"
}
differs() { diff <(echo "$1") <(echo "$2") | grep '^[<>]' || true; }
# subscriptions NODE: trap numbers the node's port is subscribed to at OpenSM, sorted, in one line.
subscriptions() {
  ask saquery --smkey 1 IIR "$(port_gid "$(ca_of "$1")")" |
    awk -F'[.][.]+' '$1 ~ /trap_num/ { print $2 }' | sort -u | xargs
}
# trees: the multicast forwarding table of switch S1, by ibroute, one "MLID PORT..." a line.
trees() {
  ask ibroute -M -G 0x200000 | awk '/^0x/ { out = $1; for (port = 0; 13 + 2 * port <= length; ++port)
    if (substr($0, 13 + 2 * port, 1) == "x") out = out " " port; print out }'
}
