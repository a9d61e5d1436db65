#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two partitions are on one port, each with its own Q_Key from partitions.conf. The link of a limited member stays down
# and reports the reason, until the port becomes a full member at run time. Then a port is removed from one partition
# and added again: that link goes down with the reason and comes back, without an effect on the other partition and the
# other nodes.
# shows: U-05, U-09
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# Partition 1 is ib0 of every node; partition 2 is ib1 of nodes a and b. H5 is in both, because OpenSM shows the members
# of a partition's groups only to members of the partition.
ONE='One=0x0001, ipoib, Q_Key=0x80010b1c, mtu=4, rate=3, defmember=full : SELF, '"$(port_guid H5)"
TWO="Two=0x0002, ipoib, Q_Key=0x80010b1d, mtu=4, rate=3, defmember=full : SELF, $(port_guid H5), $(port_guid H2), $(port_guid H3) ;"
all="$ONE, $(port_guid H2), $(port_guid H3), $(port_guid H4) ;"
c_limited="$ONE, $(port_guid H2), $(port_guid H3), $(port_guid H4)=limited ;"
without_b="$ONE, $(port_guid H2), $(port_guid H4) ;"

lab_begin labpartitions
for node in a b; do
  n=$(number_of "$node")
  LINK_LINES[$node]="pkey = 0x8001"
  PORT_ADDRESSES[$node]="\"172.16.$n.1/24\""
  NODE_TABLES[$node]=$'\n[link.ib1]\nhca = "soft0"\npkey = 0x8002\n'"address = [\"10.2.0.$n/24\"]"$'\n'
  NODE_TABLES[$node]+=$'\n[[route]]\n'"to = \"172.16.$((3 - n)).0/24\""$'\n'"via = [\"10.2.0.$((3 - n))\"]"$'\n'
done
LINK_LINES[c]="pkey = 0x8001"
partitions "$c_limited" "$TWO"
subnet_begin
sm_start
subnet_up
scenario_host c
scenario_node c
nodes_up a b
for node in a b; do ip -n "$LAB-$node" address add "172.16.$(number_of "$node").2/24" dev eth0; done

# change LINE: writes partitions.conf with this line for partition 1 and makes OpenSM read it.
change() {
  partitions "$1" "$TWO"
  sm_signal HUP
}
# field NODE LINK NAME: prints a field of `show link`.
field() { cli "$1" "show link json" | json "next(x for x in d if x['name'] == '$2')['$3']"; }
for node in a b; do
  expect "Q_Key of ib0 of node $node" "$(field "$node" ib0 qkey)" $((0x80010b1c))
  expect "Q_Key of ib1 of node $node" "$(field "$node" ib1 qkey)" $((0x80010b1d))
done
limited() { [[ $(field c ib0 state) != up && $(field c ib0 reason) == *"limited member of partition 0x8001"* ]]; }
wait_for 5 "node c to say that it is a limited member" limited
agreed_within 10 a b c
change "$all"
timed 5 "limited member made a full one, until its link is up" links_up c
row "partition 1, a to b" ping_all a "$(host_address b)"
row "partition 1, a to c" ping_all a "$(host_address c)"
row "partition 2, a to b" ping_all a 172.16.2.2 -I 172.16.1.2

flow_begin two b watch eth0 172.16.2.2
flow_begin one c watch eth0 "$(host_address c)"
flow_begin sender a send eth0 5 172.16.2.2 "$(host_address c)"
for name in one two; do wait_for 5 "flow $name to arrive" grep -q arrived "$LAB_DIR/$name.error"; done
reaches() { in_host a ping -q -c 1 -W 0.3 "$(host_address b)"; }
down_for_pkey() { [[ $(field b ib0 state) != up && $(field b ib0 reason) == *"P_Key 0x8001"* ]]; }
for time in first second; do
  change "$without_b"
  timed 5 "P_Key removed, the $time time, until link ib0 of node b is down" down_for_pkey
  say "  reason: $(field b ib0 reason)"
  ! reaches >/dev/null || fail "host b answers without its partition"
  expect "link ib1 of node b" "$(field b ib1 state)" up
  change "$all"
  begin=$(now_ms)
  timed 10 "P_Key back, until all links of node b are up" links_up b
  wait_for 14 "traffic with node b" reaches
  say "P_Key back, until host b answers: $(took "$begin")"
done
agreed_within 10 a b c
row "partition 1, a to b" ping_all a "$(host_address b)"

flow_end sender
for name in one two; do
  flow_end "$name"
  expect "flow $name: lost" "$(flow "$name" 'd["lost"]')" 0
  say "partition $name: $(flow "$name" 'd["packets"]') packets meanwhile, none lost"
done
