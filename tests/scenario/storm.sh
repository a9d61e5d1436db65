#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While a host sends to 100,000 addresses that do not exist, an established flow keeps 95 % or more of its rate, and the
# requests on the fabric and to the subnet administrator stay limited.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

NODES=(a b)
lab_begin storm
lab_fabric "$CABLE_MTU"
for node in a b; do
  scenario_host "$node"
  sed -i 's|\(address = \["10\.0\.0\.[0-9]\)/24|\1/15|' "$LAB_DIR/$node.toml"
done
for node in a b; do scenario_node "$node"; done
for node in a b; do wait_for 20 "the link of node $node" link_up "$node"; done
iperf_server b
ping_all a "$(host_address b)" >/dev/null

# flow: sends 2,000 datagrams a second for 4 s and prints the number that arrived.
flow() {
  in_host a timeout 25 iperf3 -J -u -l 200 -b 3.2M -t 4 -c "$(host_address b)" |
    json '(lambda s: s["packets"] - s["lost_packets"])(d["end"]["sum"])'
}
questions() { cli a "show link json" | json 'd[0]["counters"]["arp_sent"] + d[0]["counters"]["path_queries"]'; }

quiet=$(flow)
before=$(questions)
# This sends 4,000 datagrams a second, to the addresses from 10.0.1.0 on, until the lab ends.
background_in_host a python3 -c '
import ipaddress, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
first, n, begin = int(ipaddress.ip_address("10.0.1.0")), 0, time.monotonic()
while True:
    for _ in range(40):
        s.sendto(b"x" * 64, (str(ipaddress.ip_address(first + n % 100000)), 9))
        n += 1
    time.sleep(max(0, begin + n / 4000 - time.monotonic()))
'
storm_reached() { (($(drops a neighbour_failed) + $(drops a punt_rate_limited) + $(drops a neighbour_held_too_long) + $(drops a neighbour_table_full) > 1000)); }
wait_for 20 "the storm to reach node a" storm_reached
begin=$SECONDS
stormy=$(flow)
asked=$(($(questions) - before))
took=$((SECONDS - begin + 5))
say "of 8,000 datagrams in 4 s: $quiet arrived in quiet, $stormy in the storm; $asked questions of node a"
((stormy * 100 >= quiet * 95)) || fail "the storm costs more than 5 % of the flow"
# PuntLimits allows 1024 packets for unresolved neighbours in 100 ms. Each one here is for another address.
((asked <= took * 11000)) || fail "$asked questions in some $took s"
ping_all a "$(host_address b)"
