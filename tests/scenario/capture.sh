#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Captures every frame on a node's cable. tshark must find all of them, find no fault, and recognise ARP, IPv4 and
# subnet administration.
# The capture takes a new regular file only, and a file that does not answer stops nothing.
# shows: P-16, U-08, U-11, U-13, U-14, U-19, U-23, P-10
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin capture
lab_fabric "$CABLE_MTU"
for node in a b; do scenario_host "$node"; done
scenario_node a
wait_for 20 "the link of node a to come up" link_up a
file=$LAB_DIR/fabric.pcap
capture_begin a "$file"
# Node b starts after the capture, so that its join, path queries and ARP are in the file too.
scenario_node b
wait_for 20 "the link of node b to come up" link_up b
ping_all a "$(host_address b)"
ping_all b "$(host_address a)" -M "do" -s 2016
for octets in 1 2 3 4 5 6 7; do in_host a ping -q -c 1 -w 2 -s $octets "$(host_address b)" >/dev/null; done
said=$(capture_end a)

judge() { tshark -r "$file" "$@" 2>/dev/null; }
frames=$(judge | wc -l)
expect_text "capture stop" "$said" "^$frames frames, 0 lost$"
expect "frames that are InfiniBand" "$(judge -Y infiniband | wc -l)" "$frames"
# 8388608 is tshark's severity "error".
faults=$(judge -Y '_ws.malformed || _ws.expert.severity >= 8388608')
[[ -z $faults ]] || fail "tshark finds fault with: $faults"

count() { judge -Y "$1" | wc -l; }
echoes=$(count 'icmp.type == 8 && infiniband')
expect "echo requests" "$echoes" 47
expect "echo replies" "$(count 'icmp.type == 0')" 47
(($(count 'arp.opcode == 1 && infiniband.grh') >= 1)) || fail "no ARP request with a GRH"
(($(count 'arp.opcode == 2 && !infiniband.grh') >= 1)) || fail "no ARP reply without a GRH"
expect "ARP that is not of hardware type 32, length 20" \
  "$(count 'arp && !(arp.hw.type == 32 && arp.hw.size == 20)')" 0
(($(count 'infiniband.mad.attributeid == 0x38 && infiniband.mad.method == 0x02') >= 1)) ||
  fail "no join of a multicast group"
expect "IPoIB with a reserved field" "$(count 'infiniband.rwh.reserved != 0')" 0
say "$frames frames, $(count arp) of ARP, $(count icmp) of ICMP, $(count infiniband.mad) of MADs"

# --- The file exists now. Without a word from the operator it is not touched; a pipe never is.
before=$(sha256sum "$file")
mkfifo "$LAB_DIR/pipe"
# refused FILE PATTERN: the command fails or, if the file answers later, the capture does.
refused() {
  cli a "capture start $1" >/dev/null 2>&1 || true
  wait_for 10 "the capture to $1 to fail" capture_is a failed
  expect_text "$1" "$(cli a "show capture json" | json 'd["reason"]')" "$2"
}
refused "$file" "exists already"
refused "$LAB_DIR/pipe replace" "not a regular file"
expect "the file" "$(sha256sum "$file")" "$before"
capture_begin a "$file frames 10 replace"
ping_all b "$(host_address a)"
wait_for 10 "the capture to end by itself" capture_is a "done"
expect "frames of the second capture" "$(judge | wc -l)" 10
expect "its rights" "$(stat -c %a "$file")" 600

