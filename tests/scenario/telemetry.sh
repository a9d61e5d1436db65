#!/usr/bin/env bash
# The telemetry socket of DPDK answers for links, neighbours, workers and drops.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin telemetry
scenario_up a b
ping_all a "$(host_address b)"

ask() {
  python3 - "/run/dpdk/$LAB-a/dpdk_telemetry.v2" "$1" <<'END'
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.settimeout(5)
    connection.connect(sys.argv[1])
    connection.recv(4096)
    connection.send(sys.argv[2].encode())
    print(connection.recv(1 << 20).decode())
END
}
value() { ask "$1" | json "$2"; }

expect "/ipoib/links" "$(value /ipoib/links 'd["/ipoib/links"]')" "['ib0']"
expect "state of the link" "$(value /ipoib/link,ib0 'd["/ipoib/link"]["state"]')" up
(($(value /ipoib/link,ib0 'd["/ipoib/link"]["tx_packets"]') >= 20)) || fail "tx_packets below 20"
expect_text "/ipoib/neighbours" "$(ask /ipoib/neighbours,ib0)" '10\.0\.0\.2'
expect_text "/ipoib/workers" "$(ask /ipoib/workers)" 'lcore'
expect "/ipoib/drops" "$(value /ipoib/drops 'type(d["/ipoib/drops"]).__name__ in ("dict", "list")')" True
expect "an unknown link" "$(value /ipoib/link,ib7 'd["/ipoib/link"]')" None
