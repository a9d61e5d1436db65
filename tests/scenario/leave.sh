#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# After SIGTERM a node leaves its groups, the subnet administrator has no membership of it, and its exit status is 0. A
# node that shares its port with another user leaves none.
# shows: U-33
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin leave
scenario_up a b
ping_all a "$(host_address b)"

# members: prints the number of node b's memberships at the administrator.
members() {
  cli a "show sa json" |
    json 'sum(m["port_gid"] == "fe80::2:c903:0:2" for g in d[0]["groups"] for m in g["members"])'
}
(($(members) >= 1)) || fail "the administrator does not know node b: $(cli a "show sa json")"
status=0
node_stop b || status=$?
expect "exit status of node b" "$status" 0
gone() { (($(members) == 0)); }
wait_for 5 "the administrator to forget node b" gone

# With the option for another user of its port, the node keeps the memberships of the port.
LINK_LINES[b]='shared-port = "yes"'
scenario_config b
scenario_node b
wait_for 20 "the link of node b to come up" link_up b
before=$(members)
status=0
node_stop b || status=$?
expect "exit status of node b on a shared port" "$status" 0
expect "memberships of the shared port" "$(members)" "$before"
status=0
node_stop a || status=$?
expect "exit status of node a" "$status" 0
