# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The functions of scenarios with programs of Linux on the mirrors of a node. The mirrors of node x are in the
# namespace of "host" x-linux.

declare -A NODE_TABLES  # The array of lib.sh.

# linux_mirrors NODE [LINE...]: makes the namespace, and mirrors all interfaces of the node there. LINE: of [linux].
linux_mirrors() {
  local node=$1
  shift
  lab_space "$node-linux"
  in_host "$node-linux" sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0
  NODE_TABLES[$node]+=$'\n[linux]\nmirror = true\n'"namespace = \"$LAB-$node-linux\""$'\n'
  (($# == 0)) || NODE_TABLES[$node]+=$(printf '%s\n' "$@")$'\n'
}
in_linux() {
  local node=$1
  shift
  in_host "$node-linux" "$@"
}

# daemon_started NODE NAME PID_FILE: the daemon belongs to the lab from now on. daemon_kill NODE NAME: ends it without
# a chance to clean up.
declare -A DAEMON_PID=()
daemon_started() {
  wait_for 10 "$2 of node $1 to start" test -s "$3"
  DAEMON_PID[$1/$2]=$(<"$3")
  LAB_PIDS+=("${DAEMON_PID[$1/$2]}")
}
daemon_kill() {
  kill -KILL "${DAEMON_PID[$1/$2]}"
  wait_for 5 "$2 of node $1 to end" process_gone "${DAEMON_PID[$1/$2]}"
}

# frr_start NODE DAEMON [ARGUMENT...]: starts a daemon of FRR with $LAB_DIR/NODE.frr, which all daemons share.
# frr NODE COMMAND: prints the answer of vtysh.
frr_start() {
  local node=$1 daemon=$2 dir=$LAB_DIR/$1.frr.d
  shift 2
  mkdir -p "$dir"
  chmod 755 "$LAB_DIR"
  chown frr:frr "$dir" "$LAB_DIR/$node.frr"
  rm -f "$dir/$daemon.pid"
  in_linux "$node" "/usr/lib/frr/$daemon" -u frr -g frr --vty_socket "$dir" -z "$dir/zserv" -i "$dir/$daemon.pid" \
    -f "$LAB_DIR/$node.frr" --log "file:$dir/log" -P 0 -d "$@" >>"$dir/log" 2>&1
  daemon_started "$node" "$daemon" "$dir/$daemon.pid"
}
frr() { in_linux "$1" vtysh --vty_socket "$LAB_DIR/$1.frr.d" -c "$2"; }

# route_of NODE PREFIX FIELD: prints a field of the node's route to the prefix, or nothing.
route_of() { cli "$1" "show route json" | json "''.join(str(r['$3']) for r in d if r['to'] == '$2')"; }
route_is() { [[ $(route_of "$1" "$2" "$3") == "$4" ]]; }

# keepalived_start NODE: starts VRRP with $LAB_DIR/NODE.keepalived in the namespace of the node's mirrors.
keepalived_start() {
  local node=$1 dir=$LAB_DIR/$1.keepalived.d
  mkdir -p "$dir"
  rm -f "$dir/pid"
  in_linux "$node" keepalived --vrrp --use-file="$LAB_DIR/$node.keepalived" --pid="$dir/pid" \
    --vrrp_pid="$dir/vrrp.pid" --log-console --no-syslog --dont-fork >>"$dir/log" 2>&1 </dev/null &
  LAB_PIDS+=($!)
  daemon_started "$node" keepalived "$dir/pid"
}

# virtual_addresses NODE PRIORITY: writes $LAB_DIR/NODE.keepalived. Nodes share 10.0.0.100 and fd00::100 on the link,
# 192.168.1.254 and fd00:1::254 on the port, which move together. has_addresses NODE: it has them.
virtual_addresses() {
  local priority=$2
  instance() {
    cat <<END
vrrp_instance $1 {
  interface $2
  virtual_router_id 51
  version 3
  state BACKUP
  priority $priority
  advert_int 0.3
  virtual_ipaddress {
    $3
    ${4:-}
  }
}
END
  }
  {
    printf 'global_defs {\n  vrrp_garp_master_repeat 1\n}\n'
    printf 'vrrp_sync_group all {\n  group {\n    ib4\n    ib6\n    eth4\n    eth6\n  }\n}\n'
    instance ib4 ib0 10.0.0.100/24
    instance ib6 ib0 fe80::100/64 fd00::100/64
    instance eth4 eth0 192.168.1.254/24
    instance eth6 eth0 fe80::100/64 fd00:1::254/64
  } >"$LAB_DIR/$1.keepalived"
}
has_addresses() {
  [[ $(cli "$1" "show route json" |
    json 'sum(r["to"] in ("10.0.0.100/32", "192.168.1.254/32", "fd00::100/128", "fd00:1::254/128") and r["kind"] == "local" for r in d)') == 4 ]]
}

# bird_start NODE: starts BIRD with $LAB_DIR/NODE.bird. bird NODE COMMAND...: prints the answer of birdc.
bird_start() {
  local node=$1
  in_linux "$node" bird -c "$LAB_DIR/$node.bird" -s "$LAB_DIR/$node.bird.ctl" -P "$LAB_DIR/$node.bird.pid" \
    >>"$LAB_DIR/$node.bird.log" 2>&1
  daemon_started "$node" bird "$LAB_DIR/$node.bird.pid"
}
bird() {
  local node=$1
  shift
  in_linux "$node" birdc -s "$LAB_DIR/$node.bird.ctl" "$@"
}
