#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The nodes have a link of MTU 4092 and one of 2044. Packets of 4092 octets pass on the former. On the latter they are
# fragmented, or rejected with the right MTU, in IPv4 and IPv6.
# shows: U-15
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# Blocks and frames have room for InfiniBand packets of 4096 octets and their headers. An mbuf (mbuf-size) holds a frame.
LARGE_SIZES=blocksz=8192,framesz=8192,framecnt=2048

# mtu_config NODE SUBNET_MTU ADDRESSES: writes the configuration of a node. Host b has two IPv4 and two IPv6 prefixes:
# number 2 is reached over the large link, number 3 over the small one. Node a has the subnet administrator of the
# small fabric, node b that of the large one.
mtu_config() {
  local node=$1 n
  n=$(number_of "$node")
  cat >"$LAB_DIR/$node.toml" <<END_CONFIG
[hca.small]
wire = "net_af_packet1"
guid = "0x0002c9030000001$n"
lid = $n
sm-lid = 1
subnet-administrator = $([[ $node == a ]] && echo true || echo false)

[hca.large]
wire = "net_af_packet2"
guid = "0x0002c9030000002$n"
lid = 1$n
sm-lid = 12
mtu = 4096
subnet-administrator = $([[ $node == b ]] && echo true || echo false)

[link.ib0]
hca = "small"
address = ["10.0.0.$n/24", "fd00::$n/64"]

[link.ib1]
hca = "large"
address = ["10.0.1.$n/24", "fd00:f::$n/64"]

[port.eth0]
device = "net_af_packet0"
address = [$3]
mtu = 4092

[subnet]
mtu = $2

[worker]
mbuf-size = 8448
END_CONFIG
}

lab_begin mtu
for host in a b; do lab_host "$host" 4092; done
for cable in ib0 ib1; do
  ip -n "$LAB-a" link add "$cable" mtu 4300 type veth peer name "$cable" mtu 4300 netns "$LAB-b"
  for host in a b; do ip -n "$LAB-$host" link set "$cable" up; done
done
mtu_config a 2048 '"192.168.1.1/24", "fd00:1::1/64"'
mtu_config b 4096 '"192.168.2.1/24", "192.168.3.1/24", "fd00:2::1/64", "fd00:3::1/64"'
# route NODE TO VIA: adds a route to the node's configuration.
route() { printf '\n[[route]]\nto = "%s"\nvia = ["%s"]\n' "$2" "$3" >>"$LAB_DIR/$1.toml"; }
route a 192.168.2.0/24 10.0.1.2
route a 192.168.3.0/24 10.0.0.2
route a fd00:2::/64 fd00:f::2
route a fd00:3::/64 fd00::2
route b 192.168.1.0/24 10.0.1.1
route b fd00:1::/64 fd00:f::1

lab_host_address a 192.168.1.2/24 192.168.1.1
lab_host_address b 192.168.2.2/24 192.168.2.1
ip -n "$LAB-b" address add 192.168.3.2/24 dev eth0
for host in a b; do host_ipv6 "$host"; done
ip -n "$LAB-a" address add fd00:1::2/64 dev eth0
ip -n "$LAB-a" route add default via fd00:1::1
ip -n "$LAB-b" address add fd00:2::2/64 dev eth0
ip -n "$LAB-b" address add fd00:3::2/64 dev eth0
ip -n "$LAB-b" route add default via fd00:2::1

for node in a b; do
  node_start "$node" "$LAB_DIR/$node.toml" "--vdev=net_af_packet0,iface=port0,$LARGE_SIZES" \
    "--vdev=net_af_packet1,iface=ib0,$AF_PACKET_SIZES" "--vdev=net_af_packet2,iface=ib1,$LARGE_SIZES"
done
all_up() { cli "$1" "show link json" | json '{x["state"] for x in d}' | grep -qx "{'up'}"; }
for node in a b; do
  node_ready "$node"
  wait_for 20 "the links of node $node to come up" all_up "$node"
  expect "MTUs of node $node" "$(cli "$node" "show link json" | json '[x["mtu"] for x in d]')" "[2044, 4092]"
done
capture=$LAB_DIR/fabric.pcap
capture_begin a "$capture"

reaches() { in_host a ping -q -c 1 -W 0.3 "$1"; }
for to in 192.168.2.2 192.168.3.2 fd00:2::2 fd00:3::2; do
  wait_for 15 "$to to answer" reaches "$to"
done
row "large link, 4092 octets, DF" ping_all a 192.168.2.2 -M "do" -s 4064
row "the same, IPv6" ping_all a fd00:2::2 -M "do" -s 4044
row "small link, 2044 octets, DF" ping_all a 192.168.3.2 -M "do" -s 2016
row "the same, IPv6" ping_all a fd00:3::2 -M "do" -s 1996

# refused ADDRESS SIZE PATTERN: ping with DF must report an error that matches PATTERN.
refused() {
  local report
  report=$(in_host a ping -n -c 3 -i 0.3 -w 8 -M "do" -s "$2" "$1" 2>&1) || true
  expect_text "ping of $2 octets to $1" "$report" "$3"
  grep -E -m 1 -- "$3" <<<"$report"
}
refused 192.168.3.2 4064 'From 192\.168\.1\.1 .*Frag needed and DF set \(mtu = 2044\)'
refused fd00:3::2 4044 'From fd00:1::1 .*Packet too big: mtu=2044'
in_host a ip route flush cache
row "cut by node a" ping_all a 192.168.3.2 -M dont -s 4064
row "cut by host a, IPv6" ping_all a fd00:3::2 -s 4044
capture_end a

judge() { tshark -r "$capture" "$@" 2>/dev/null; }
count() { judge -Y "$1" | wc -l; }
faults=$(judge -Y '_ws.malformed || (infiniband && _ws.expert.severity >= 8388608)')
[[ -z $faults ]] || fail "tshark finds fault with: $(head -n 5 <<<"$faults")"
(($(count 'ip.len == 4092 && infiniband.lrh.dlid == 12') >= 20)) || fail "no packet of 4092 octets"
expect "packets above 2044 octets on the small link" \
  "$(count 'infiniband.lrh.dlid in {1, 2} && (ip.len > 2044 || ipv6.plen > 2004)')" 0
(($(count 'infiniband.lrh.dlid == 2 && ip.frag_offset > 0') >= 20)) || fail "nothing was cut"

iperf_server b
row "iperf3 TCP, large link" tcp_rate a 192.168.2.2 2
row "iperf3 TCP, small link" tcp_rate a 192.168.3.2 2
