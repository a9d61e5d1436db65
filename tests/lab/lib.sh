# shellcheck shell=bash
# What lab scripts share: scenarios' nodes, each with its host, on a subnet that OpenSM manages.
#
#   H1 OpenSM ─┐                 ┌─ H5 tools: saquery, ibroute, smpquery
#   H2 node a ─┤ switch S1 ═══ S2┤
#   H3 node b ─┤                 └─ H6 a second OpenSM
#   H4 node c ─┘
#
# The subnet is ibsim's: MADs of a process that has libumad2sim before libc are those of the simulated
# channel adapter it names. Data go over a Linux bridge as in any scenario. ibsim, OpenSM and nodes are
# in one network namespace, because ibsim listens on a socket whose name is the namespace's.
#
# What the simulator (ibsim 0.10) cannot do, so that no script here shows it: answers of several
# segments (256 octets arrive: three member records), MTU 4096, ClientReregister, more than ten
# clients, time-outs of requests. A node's Reports need IsSM (SIM_SET_ISSM), which OpenSM takes for a
# subnet manager: it is told to ignore others, except where a script has two of its own.

LAB_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/scenario/lib.sh
source "$LAB_SOURCE/../scenario/lib.sh"
UMAD2SIM=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so

# Where a node is and what it has there: nodes a, b, c are at H2, H3, H4.
ca_of() { echo "H$(($(number_of "$1") + 1))"; }
node_space() { echo "$LAB-fabric"; }
port_name() { echo "port-$1"; }
cable_name() { echo "ib-$1"; }
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
node_exec() {
  local node=$1
  shift
  SIM_SET_ISSM=1 at_port "$(ca_of "$node")" "$@"
}
# ask COMMAND...: a tool of infiniband-diags, from outside.
ask() { (at_port H5 "$@"); }

# subnet_begin [TOPOLOGY]: the switches, with nobody managing them.
subnet_begin() {
  lab_fabric "$CABLE_MTU"
  # ibsim waits for a client whose queue is full; a stopped OpenSM would stop the simulator.
  ip netns exec "$LAB-fabric" sysctl -qw net.unix.max_dgram_qlen=4096
  mkfifo "$LAB_DIR/console"
  LAB_LOGS+=(ibsim)
  ip netns exec "$LAB-fabric" ibsim -s -N 8192 -S 1024 -P 120000 \
    "${1:-$LAB_SOURCE/small.net}" <>"$LAB_DIR/console" >"$LAB_DIR/ibsim.log" 2>&1 &
  LAB_PIDS+=($!)
  wait_for 10 "the simulator to be ready" grep -q 'simulator ready' "$LAB_DIR/ibsim.log"
}
# simulator COMMAND: on ibsim's console.
simulator() { echo "$1" >"$LAB_DIR/console"; }
unlink_ca() { simulator "Unlink \"$1\"[1]"; }
relink_ca() { simulator "Relink \"$1\"[1]"; }

# sm_start [NAME [CA [argument...]]]: OpenSM, by default the one at H1, which ignores others. Partitions
# are those of $LAB_DIR/partitions.conf.
declare -A SM_PID=()
sm_start() {
  local name=${1:-sm} ca=${2:-H1}
  (($# > 2)) && shift 2 || set -- -d 0
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
# sm_kill [NAME]: SIGKILL. What it said is kept under another name, so that a later start is told apart.
sm_kill() {
  local name=${1:-sm}
  kill -9 "${SM_PID[$name]}"
  wait "${SM_PID[$name]}" 2>/dev/null || true
  cat "$LAB_DIR/$name.log" >>"$LAB_DIR/$name.before"
  rm "$LAB_DIR/$name.log"
}
sm_said() { grep -qE -- "$1" "$LAB_DIR/${2:-sm}.log"; }
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
  local node
  subnet_begin
  sm_start
  for node; do scenario_host "$node"; done
  subnet_up
  for node; do scenario_node "$node"; done
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
MLIDS_ASKED=16
held() {
  local mlid
  for ((mlid = 0xc000; mlid < 0xc000 + MLIDS_ASKED; ++mlid)); do
    ask saquery --smkey 1 --mlid $mlid MCMR
  done | awk -F'[.][.]+' '$1 ~ /MGID/ { mgid = $2 } $1 ~ /PortGid/ { gid = $2 }
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
# agreed NODE...: OpenSM holds the memberships of these nodes exactly, and no others.
agreed() { [[ $(held) == "$(believed "$@")" ]]; }
expect_agreed() {
  agreed "$@" || fail "OpenSM holds (left), nodes say (right): $(diff -y <(held) <(believed "$@"))"
}
# subscriptions NODE: trap numbers the node's port is subscribed to at OpenSM, sorted, in one line.
subscriptions() {
  ask saquery --smkey 1 IIR "$(port_gid "$(ca_of "$1")")" |
    awk -F'[.][.]+' '$1 ~ /trap_num/ { print $2 }' | sort -u | xargs
}
# trees: the multicast forwarding table of switch S1, by ibroute, one "MLID PORT..." a line.
trees() {
  ask ibroute -M -G 0x200000 | awk '/^0x/ { out = $1; for (i = 2; i <= NF; ++i)
    if ($i == "x") out = out " " int((i - 2)); print out }'
}
