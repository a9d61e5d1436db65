#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# BIRD on the mirrors of two nodes: OSPF of both versions carries the networks of the hosts, and the nodes forward by the
# routes that BIRD gives to Linux.
# shows: P-11, P-17
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/linux-lib.sh"

lab_begin bird
NODES=()
for node in a b; do
  n=$(number_of "$node")
  LINK_ADDRESSES[$node]="\"fd00::$n/64\""
  PORT_ADDRESSES[$node]="\"fd00:$n::1/64\""
  linux_mirrors "$node"
  ospf() {
    cat <<END
protocol ospf $1 {
  ipv$2 { import all; export all; };
  area 0 {
    interface "ib0" { hello 1; dead 4; };
    interface "eth0" { stub; };
  };
}
END
  }
  cat >"$LAB_DIR/$node.bird" <<END
router id 10.0.0.$n;
protocol device { scan time 1; }
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { export where source = RTS_OSPF; }; metric 20; }
protocol kernel { ipv6 { export where source = RTS_OSPF; }; metric 20; }
$(ospf v2 4)
$(ospf v3 6)
END
done
scenario_up a b
for node in a b; do bird_start "$node"; done
all_routes() {
  route_is a 192.168.2.0/24 kind kernel && route_is b 192.168.1.0/24 kind kernel &&
    route_is a fd00:2::/64 kind kernel && route_is b fd00:1::/64 kind kernel
}
wait_for 60 "the routes by OSPF" all_routes
ping_each_other a b
row "neighbours of node a" bird a show ospf neighbors

# BIRD withdraws its routes when it ends.
bird a down >/dev/null
no_route() { [[ -z $(route_of a 192.168.2.0/24 kind) ]]; }
wait_for 20 "the routes to go with BIRD" no_route
bird_start a
wait_for 60 "the routes to return with BIRD" all_routes
ping_each_other a b
