# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A lab on this machine: hosts (network namespaces), nodes (dpdk-ipoib processes, each in its host's
# namespace) and the cables between them. The quick start and the scenario tests source this file.
#
#   lab_begin NAME           unique names, a folder for logs and sockets, clean-up at every exit
#   lab_host HOST            namespace with the interface eth0, whose peer (port0) is the node's
#   lab_fabric MTU           a Linux bridge as the switch
#   lab_cable HOST MTU       veth from the host's namespace (ib0) to the fabric
#   node_start HOST CONFIG [EAL argument...] [-- application argument...]
#   node_stop HOST           sends SIGTERM, waits, returns the exit status of the node
#   node_kill HOST           sends SIGKILL
#   in_host HOST COMMAND...  runs a command in the host's namespace; background_in_host does not wait
#   ping_all / tcp_rate / udp_rate     traffic of the hosts' kernels; losses end the script
#   cli HOST COMMAND...      runs commands of the node's CLI
#   wait_for SECONDS WHAT COMMAND...   waits until the command succeeds
#
# Everything made is named after the process, and lab_end removes it. A script may define a function
# lab_clean to remove its own resources.

IPOIB_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
IPOIB_BUILD=${IPOIB_BUILD:-$IPOIB_ROOT/build}
# python3 may be a script that searches for the interpreter. Labs start it often and search once.
PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH

declare -A NODE_PID=()
LAB_PIDS=()
LAB_LAST_PIDS=()  # processes that the others need until they end
LAB_SPACES=()
LAB_PATIENCE=${LAB_PATIENCE:-1}  # factor on the timeouts of wait_for, for slow machines
LAB_MEMORY=640  # megabytes of a node without hugepages
LAB_LOGS=()  # names of logs in LAB_DIR to print after a failure, in addition to those of the nodes

say() { printf '%s\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# row TITLE COMMAND...: prints one line of the table. The assignment makes a failure of the command
# end the script.
row() {
  local title=$1 result
  shift
  result=$("$@")
  printf '  %-30s %s\n' "$title" "$result"
}

lab_begin() {
  ((EUID == 0)) || fail "network namespaces require root"
  LAB=ipoib-$1-$$
  LAB_DIR=$(mktemp -d "/tmp/$LAB.XXXXXX")
  trap lab_end EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  trap 'exit 141' PIPE  # Without it, SIGPIPE would end the shell without clean-up.
}

# Runs once, at any end of the shell.
lab_end() {
  local status=$? pid space log
  set +e
  trap - EXIT
  trap '' INT TERM HUP PIPE
  if ((status && status < 128)); then
    for log in "${!NODE_PID[@]}" "${LAB_LOGS[@]}"; do
      printf -- '--- last lines of %s\n' "$log"
      tail -n "${LAB_LOG_LINES:-25}" "$LAB_DIR/$log.log"
    done >&2
  fi
  end_processes "${NODE_PID[@]}"  # They leave their groups while the other processes still run.
  end_processes "${LAB_PIDS[@]}"
  end_processes "${LAB_LAST_PIDS[@]}"
  wait 2>/dev/null
  declare -F lab_clean >/dev/null && lab_clean
  for space in "${LAB_SPACES[@]}"; do
    ip netns del "$space" 2>/dev/null
    rm -rf "/run/dpdk/$space"
  done
  rm -rf "$LAB_DIR"
  exit "$status"
}

# Sends SIGTERM to all processes, and SIGKILL to those that still run after five seconds.
end_processes() {
  local pid
  for pid; do
    kill "$pid" 2>/dev/null
    kill -CONT "$pid" 2>/dev/null  # A stopped process would not handle SIGTERM.
  done
  for pid; do wait_for 5 "" process_gone "$pid" || kill -9 "$pid" 2>/dev/null; done
}

# A zombie counts as gone.
process_gone() {
  local state
  state=$(ps -o state= -p "$1" 2>/dev/null) || return 0
  [[ $state == Z* ]]
}

# Polls ten times per second. With an empty text, a timeout returns 1 and does not end the script.
wait_for() {
  local seconds=$1 what=$2 end
  shift 2
  end=$(($(date +%s%N) + seconds * LAB_PATIENCE * 1000000000))
  until "$@" >/dev/null 2>&1; do
    if (($(date +%s%N) > end)); then
      [[ -z $what ]] && return 1
      fail "timed out after $((seconds * LAB_PATIENCE)) s: $what"
    fi
    sleep 0.1
  done
}

lab_space() {
  LAB_SPACES+=("$LAB-$1")
  ip netns add "$LAB-$1"
  ip netns exec "$LAB-$1" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
    net.ipv6.conf.default.disable_ipv6=1
  ip -n "$LAB-$1" link set lo up
}

# The command runs until the lab ends.
background_in_host() {
  local host=$1
  shift
  ip netns exec "$LAB-$host" "$@" </dev/null >>"$LAB_DIR/background.log" 2>&1 &
  LAB_PIDS+=($!)
}

in_host() {
  local host=$1
  shift
  ip netns exec "$LAB-$host" "$@"
}

# Namespace of a host's node and names of its two interfaces there. node_exec replaces a subshell
# with the node. Labs whose nodes share a namespace redefine these functions.
node_space() { echo "$LAB-$1"; }
port_name() { echo port0; }
cable_name() { echo ib0; }
interface_index() { :; }  # prints `index NUMBER` if the kernel must not choose the index
node_exec() {
  local space
  space=$(node_space "$1")
  shift
  exec ip netns exec "$space" "$@"
}

# net_tap of DPDK 22.11 sends no frame above 1522 octets, a veth below net_af_packet does. The host
# must compute checksums, because a veth has no hardware that does.
lab_host() {
  local host=$1 mtu=${2:-2044} port
  port=$(port_name "$host")
  lab_space "$host"
  # shellcheck disable=SC2046
  ip -n "$(node_space "$host")" link add "$port" $(interface_index "$port") mtu "$mtu" type veth \
    peer name eth0 mtu "$mtu" netns "$LAB-$host"
  in_host "$host" ethtool -K eth0 tx off tso off gso off >/dev/null
  ip -n "$LAB-$host" link set eth0 up
  ip -n "$(node_space "$host")" link set "$port" up
}

# Sets the host's address and its default route.
lab_host_address() {
  local host=$1 address=$2 gateway=$3
  ip -n "$LAB-$host" address add "$address" dev eth0
  ip -n "$LAB-$host" route add default via "$gateway"
}

lab_fabric() {
  lab_space fabric
  ip -n "$LAB-fabric" link add br0 type bridge mcast_snooping 0 stp_state 0 forward_delay 0
  ip -n "$LAB-fabric" link set br0 mtu "$1" up
}

lab_cable() {
  local host=$1 mtu=$2 cable
  cable=$(cable_name "$host")
  # shellcheck disable=SC2046
  ip -n "$(node_space "$host")" link add "$cable" $(interface_index "$cable") mtu "$mtu" type veth \
    peer name "to-$host" mtu "$mtu" netns "$LAB-fabric"
  ip -n "$LAB-fabric" link set "to-$host" master br0 up
  ip -n "$(node_space "$host")" link set "$cable" up
}

# Slots for half a second of the quick start's UDP, because the worker of a busy machine may pause.
AF_PACKET_SIZES=blocksz=4096,framesz=4096,framecnt=2048
port_device() { echo "--vdev=net_af_packet0,iface=$(port_name "$1"),$AF_PACKET_SIZES"; }
cable_device() { echo "--vdev=net_af_packet1,iface=$(cable_name "$1"),$AF_PACKET_SIZES"; }
memif_device() { echo "--vdev=net_memif0,role=$1,socket=$LAB_DIR/memif,socket-abstract=no,bsize=4096"; }

# Uses hugepages if half a gigabyte of them is free, otherwise ordinary memory. All lcores, of which
# LAB_WORKERS are for workers, may run on every CPU that this shell may use, because a lab has more
# lcores than CPUs.
eal_arguments() {
  local cpus free size
  cpus=$(awk '/Cpus_allowed_list/ { print $2 }' /proc/self/status)
  free=$(awk '/HugePages_Free/ { print $2 }' /proc/meminfo)
  size=$(awk '/Hugepagesize/ { print $2 }' /proc/meminfo)
  if ((${free:-0} * ${size:-0} >= 524288)) && [[ -d /dev/hugepages ]]; then
    echo --in-memory -m 256
  else
    echo --no-huge -m "$LAB_MEMORY"
  fi
  echo "--lcores $(seq -s, -f "%g@($cpus)" 0 "${LAB_WORKERS:-1}") --no-pci --file-prefix=$LAB-$1"
}

node_start() {
  local host=$1 config=$2 eal=() arguments
  shift 2
  while (($#)) && [[ $1 != -- ]]; do
    eal+=("$1")
    shift
  done
  (($#)) && shift
  read -r -d '' -a arguments < <(eal_arguments "$host") || true
  rm -f "$LAB_DIR/$host.sock"
  node_exec "$host" "$IPOIB_BUILD/app/dpdk-ipoib" "${arguments[@]}" "${eal[@]}" -- \
    --config "$config" --cli-socket "$LAB_DIR/$host.sock" --idle-policy "${LAB_IDLE_POLICY:-sleep}" --auto-start "$@" \
    </dev/null >>"$LAB_DIR/$host.log" 2>&1 &
  NODE_PID[$host]=$!
}

# Waits until the node answers. Fails at once if the node ends instead; lab_end prints its log.
node_ready() {
  local host=$1
  wait_for 30 "node $host to answer" node_answers_or_gone "$host"
  process_gone "${NODE_PID[$host]}" && fail "node $host ended at start"
  return 0
}
node_answers_or_gone() { cli "$1" "show link json" || process_gone "${NODE_PID[$1]}"; }

node_stop() {
  local host=$1 pid=${NODE_PID[$1]}
  kill "$pid"
  wait_for 15 "node $host to end after SIGTERM" process_gone "$pid"
  unset "NODE_PID[$host]"
  wait "$pid"
}

node_kill() {
  kill -9 "${NODE_PID[$1]}"
  wait "${NODE_PID[$1]}" 2>/dev/null || true
  unset "NODE_PID[$1]"
}

cli() {
  local host=$1
  shift
  "$IPOIB_ROOT/config/ipoib-cli" "$LAB_DIR/$host.sock" "$@"
}

# json FILTER: evaluates a Python expression over the JSON document `d` on standard input.
json() { python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"; }

link_up() { [[ $(cli "$1" "show link json" | json 'd[0]["state"]') == up ]]; }

# ping_all FROM ADDRESS [ping argument...]: sends 20 echo requests and prints the counts of ping. A
# missing reply is a failure.
ping_all() {
  local host=$1 address=$2 report
  shift 2
  report=$(in_host "$host" ping -q -c 20 -i 0.05 -w 10 "$@" "$address") || true
  grep -q ' 0% packet loss' <<<"$report" ||
    fail "ping $* from host $host to $address: ${report##*---}"
  awk -F'[ /]' '/transmitted/ { sent = $1; got = $4 }
    /^rtt/ { printf "%d of %d answered, round trip %s ms (mean)\n", got, sent, $8 }' <<<"$report"
}

iperf_server() {
  background_in_host "$1" iperf3 -s
  wait_for 10 "iperf3 to listen on host $1" iperf_listens "$1"
}
iperf_listens() { in_host "$1" ss -Hltn 'sport = :5201' | grep -q .; }

# tcp_rate FROM ADDRESS SECONDS: prints the received rate; 0 Mbit/s is a failure.
tcp_rate() {
  local report rate
  report=$(in_host "$1" timeout $(($3 + 15)) iperf3 -J -c "$2" -t "$3") ||
    fail "iperf3 TCP from host $1 to $2: $(json 'd.get("error")' <<<"$report")"
  rate=$(json 'round(d["end"]["sum_received"]["bits_per_second"] / 1e6)' <<<"$report")
  ((rate > 0)) || fail "iperf3 TCP from host $1 to $2 transferred no data"
  echo "$rate Mbit/s"
}

# udp_rate FROM ADDRESS SECONDS MBIT: prints the received rate; a loss of 5 % or more is a failure.
udp_rate() {
  local report lost
  report=$(in_host "$1" timeout $(($3 + 15)) iperf3 -J -u -l 1400 -b "$4M" -c "$2" -t "$3") ||
    fail "iperf3 UDP from host $1 to $2: $(json 'd.get("error")' <<<"$report")"
  lost=$(json 'int(d["end"]["sum"]["lost_percent"])' <<<"$report")
  ((lost < 5)) || fail "iperf3 UDP of $4 Mbit/s from host $1 to $2 lost $lost %"
  json '(lambda s: "%.0f Mbit/s, %d of %d lost" % (s["bits_per_second"] / 1e6 * (1 - s["lost_percent"] / 100),
    s["lost_packets"], s["packets"]))(d["end"]["sum"])' <<<"$report"
}
