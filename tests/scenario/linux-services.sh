#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Services of Linux on the mirrors of node a: dnsmasq gives addresses to a host on Ethernet and to one on the fabric,
# which asks as RFC 4390 says, and lldpd and the host on Ethernet see each other.
# shows: P-17
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/linux-lib.sh"

lab_begin linux-services
for node in a b; do linux_mirrors "$node"; done
scenario_up a b

in_linux a dnsmasq --keep-in-foreground --conf-file=/dev/null --port=0 --log-facility=- --no-hosts --no-ping \
  --dhcp-leasefile="$LAB_DIR/leases" --pid-file="$LAB_DIR/dnsmasq.pid" --user=root --log-dhcp \
  --dhcp-range=192.168.1.50,192.168.1.50,255.255.255.0 --dhcp-range=10.0.0.50,10.0.0.50,255.255.255.0 \
  >"$LAB_DIR/dnsmasq.log" 2>&1 &
LAB_PIDS+=($!)
daemon_started a dnsmasq "$LAB_DIR/dnsmasq.pid"

# The host forgets its address, and gets another by DHCP. Its client does not ask for broadcasts, so that the answers
# go to its MAC address.
ip -n "$LAB-a" address flush dev eth0
cat >"$LAB_DIR/udhcpc" <<'END'
#!/bin/sh
[ "$1" != bound ] || ip address add "$ip/24" dev "$interface"
END
chmod 755 "$LAB_DIR/udhcpc"
in_host a udhcpc -f -q -n -t 20 -T 1 -i eth0 -s "$LAB_DIR/udhcpc" >"$LAB_DIR/udhcpc.log" 2>&1 ||
  fail "the host gets no address: $(tail -n 3 "$LAB_DIR/udhcpc.log" "$LAB_DIR/dnsmasq.log")"
row "the host on Ethernet" sed -n 's/.*lease of \([^ ]*\) obtained.*/\1/p' "$LAB_DIR/udhcpc.log"
expect "address of the host" "$(ip -n "$LAB-a" -j -4 address show dev eth0 | json 'd[0]["addr_info"][0]["local"]')" \
  192.168.1.50
in_host a ping -q -c 1 -W 5 192.168.1.1 >/dev/null || fail "the host does not reach the node"

# The host on the fabric is a program on the mirror of node b.
in_linux b python3 "$(dirname "$0")/rfc4390_client.py" ib0 >"$LAB_DIR/rfc4390.log" 2>&1 ||
  fail "the host on the fabric gets no address: $(tail -n 3 "$LAB_DIR/rfc4390.log" "$LAB_DIR/dnsmasq.log")"
row "the host on the fabric" cat "$LAB_DIR/rfc4390.log"
expect "offer to the host on the fabric" "$(<"$LAB_DIR/rfc4390.log")" 10.0.0.50

chmod 755 "$LAB_DIR"  # lldpcli is not root.
for side in a-linux a; do
  ip netns exec "$LAB-$side" lldpd -d -I eth0 -S "$side" -u "$LAB_DIR/$side.lldpd" >"$LAB_DIR/$side.lldpd.log" 2>&1 &
  LAB_PIDS+=($!)
done
# lldp SIDE COMMAND...: a command to the daemon beside the mirrors (a-linux) or on the host (a).
lldp() {
  local side=$1
  shift
  in_host "$side" lldpcli -u "$LAB_DIR/$side.lldpd" "$@"
}
sees() { lldp "$1" show neighbors 2>&1 | grep -q "SysDescr: *$2\$"; }
for side in a-linux a; do
  wait_for 20 "lldpd of $side to start" test -S "$LAB_DIR/$side.lldpd"
  lldp "$side" configure lldp tx-interval 1 >/dev/null
done
wait_for 30 "the node to see the host by LLDP" sees a-linux a
wait_for 30 "the host to see the node by LLDP" sees a a-linux
lldp a-linux show neighbors -f keyvalue >"$LAB_DIR/neighbours"
row "port of the host, seen by LLDP" sed -n 's/^lldp.eth0.port.descr=//p' "$LAB_DIR/neighbours"
