#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# FRR on the mirrors of two nodes: OSPF of both versions carries the networks of the hosts, BFD watches the neighbour,
# and the nodes forward by the routes that FRR gives to Linux. They have no routes of their own. A link that goes down
# withdraws them.
# shows: P-11, P-17
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/linux-lib.sh"

lab_begin frr
NODES=()
for node in a b; do
  n=$(number_of "$node")
  LINK_ADDRESSES[$node]="\"fd00::$n/64\""
  PORT_ADDRESSES[$node]="\"fd00:$n::1/64\""
  linux_mirrors "$node"
  cat >"$LAB_DIR/$node.frr" <<END
hostname $node
interface ib0
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 4
 ip ospf bfd
 ipv6 ospf6 area 0
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
interface eth0
 ip ospf area 0
 ip ospf passive
 ipv6 ospf6 area 0
 ipv6 ospf6 passive
router ospf
 ospf router-id 10.0.0.$n
router ospf6
 ospf6 router-id 10.0.0.$n
END
done
scenario_up a b
for node in a b; do
  row "mirrors of node $node" in_linux "$node" ip -br address show dev ib0
  for daemon in zebra bfdd ospfd ospf6d; do frr_start "$node" "$daemon"; done
done


# all_routes: each node has the routes to the other's host. no_routes: neither has.
all_routes() {
  route_is a 192.168.2.0/24 kind kernel && route_is b 192.168.1.0/24 kind kernel &&
    route_is a fd00:2::/64 kind kernel && route_is b fd00:1::/64 kind kernel
}
no_routes() { [[ -z $(route_of a 192.168.2.0/24 kind)$(route_of b 192.168.1.0/24 kind) ]]; }
bfd_up() { frr "$1" "show bfd peers json" | json '[p["status"] for p in d]' | grep -q "'up'"; }

wait_for 60 "the routes by OSPF" all_routes
expect "the gateway" "$(route_of a 192.168.2.0/24 via)" "['10.0.0.2']"
expect_text "the gateway of IPv6" "$(route_of a fd00:2::/64 via)" "fe80::202:c903:0:2"
wait_for 30 "BFD to watch node b" bfd_up a
ping_each_other a b
row "the routes of node a" cli a "show route"
row "the mirrors of node a" cli a "show mirror"

# Node b hears nothing of a link that is down at node a, except that BFD gets no answers.
cli a "link down ib0"
wait_for 20 "the routes to go with the link" no_routes
cli a "link up ib0"
wait_for 60 "the routes to return with the link" all_routes
ping_each_other a b

# A route of the configuration is better than one of FRR, which is in effect again when that is removed.
cli a "route add 192.168.2.0/24 via 10.0.0.9"
expect "the best route" "$(cli a "show route json" |
  json '[(r["kind"], r["state"]) for r in d if r["to"] == "192.168.2.0/24"]')" \
  "[('static', 'active'), ('kernel', 'inactive')]"
cli a "route del 192.168.2.0/24"
ping_each_other a b
