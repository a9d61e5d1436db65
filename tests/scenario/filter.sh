#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Filters of the configuration and of commands: the first rule that fits decides, and rules count. Packets that arrive,
# packets for the node, and packets that leave.
# shows: P-23
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin filter
NODE_TABLES[a]+=$'\n[[filter]]\ninterface = "eth0"\ndirection = "in"\naction = "accept"\nprotocol = "icmp"\n'
scenario_up a b

settled() { [[ $(cli a "show filter json" | json "len(d), {r['state'] for r in d} <= {'active'}") == "$1 True" ]]; }
packets() { cli a "show filter json" | json "d[$1]['packets']"; }

ping_all a "$(host_address b)"
(($(packets 0) >= 20)) || fail "the rule of the configuration counted $(packets 0) packets"

# --- A rule in front drops what the one behind it accepts; the host of node b is still answered.
cli a "filter add in drop at 1 iface eth0 src 192.168.1.2 dst 192.168.2.0/24"
wait_for 10 "the new rule to be in effect" settled 2
counted=$(packets 1)
in_host a ping -c 5 -i 0.05 -W 1 "$(host_address b)" >/dev/null && fail "pings pass a rule that drops them"
expect "packets of the new rule" "$(packets 0)" 5
expect "packets of the old rule" "$(packets 1)" "$counted"
expect_text "drops" "$(cli a "show drops")" "ip_filter +eth0 +5"
in_host a ping -c 3 -i 0.05 -W 1 192.168.1.1 >/dev/null || fail "the node itself does not answer any more"

# --- Without the rule pings pass, and the configuration has the rule that stays.
cli a "filter del 1"
wait_for 10 "the rule to be gone" settled 1
ping_all a "$(host_address b)"
(($(packets 0) > counted)) || fail "the rule that stays does not count"
expect_text "configuration" "$(cli a "show config")" '^protocol = "icmp"$'

# --- Out rules are for the interface by which packets leave.
cli a "filter add out drop iface ib0 proto icmp"
wait_for 10 "the out rule to be in effect" settled 2
in_host a ping -c 3 -i 0.05 -W 1 "$(host_address b)" >/dev/null && fail "pings pass an out rule"
in_host a ping -c 3 -i 0.05 -W 1 192.168.1.1 >/dev/null || fail "an answer of the node passes rules"

# --- Errors name their reason.
expect_text "too high" "$(cli a "filter del 7" || true)" "no filter rule 7; there are 2"
expect_text "no ports" "$(cli a "filter add in drop dport 53" || true)" "ports require a protocol"

# --- The check of sources is changed while the node runs.
cli a "filter del 2"
wait_for 10 "the out rule to be gone" settled 1
cli a "set source-check eth0 strict"
ping_all a "$(host_address b)"
