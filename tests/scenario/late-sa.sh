#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Without a subnet administrator a link waits and reports the reason. It comes up by itself when one appears.
# shows: U-10
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin latesa
lab_fabric "$CABLE_MTU"
for node in a b; do scenario_host "$node"; done
scenario_node b
waits() { [[ $(link_field b state) != up && -n $(link_field b reason) ]]; }
wait_for 10 "node b to say why its link is not up" waits
joins() { (($(cli b "show link json" | json 'd[0]["counters"]["joins_sent"]') >= 2)); }
wait_for 20 "node b to try again" joins
say "node b: $(link_field b state), $(link_field b reason)"
expect_text "reason" "$(link_field b reason)" '(subnet admin|SA|LID 1)'

scenario_node a
# The back-off of the join is at most 16 s between two attempts.
wait_for 25 "the link of node b to come up" link_up b
expect "reason" "$(link_field b reason)" ""
ping_all b "$(host_address a)"
