#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A subnet manager changes a port under traffic: it removes a P_Key and restores it, changes the LID, takes the port
# down and up, and requests client reregistration. After each change packets flow again within the stated time.
# shows: U-09, U-36
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin portevents
scenario_up a b
ping_all a "$(host_address b)"

reaches() { in_host a ping -q -c 1 -W 0.3 "$(host_address b)"; }
quiet() { ! reaches; }
names() { [[ $(link_field b reason) == *"$1"* ]]; }
# set_hca NODE WORDS: runs `set hca`, which prints nothing on success.
set_hca() { expect "set hca $2" "$(cli "$1" "set hca soft0 $2")" ""; }
# heals SECONDS WHAT: waits until traffic flows again.
heals() {
  local begin
  begin=$(date +%s%N)
  wait_for "$1" "traffic after $2" reaches
  say "$2: healed after $((($(date +%s%N) - begin) / 1000000)) ms (limit $1 s)"
  ping_all a "$(host_address b)"
}

set_hca b "pkeys 0x8001"
wait_for 2 "traffic to end without the P_Key" quiet
wait_for 2 "node b to name the P_Key" names 'P_Key 0xffff'
(($(drops b ib_pkey) > 0)) || fail "no packet was counted as ib_pkey"
set_hca b "pkeys 0xffff"
heals 5 "P_Key removed and back"

# Others learn the new LID by probing: after reachable 4 s + 50 % and probe-delay 1 s, they send three probes and three
# broadcasts 1 s apart.
set_hca b "lid 9"
heals 14 "LID changed from 2 to 9"
expect "LID" "$(cli b "show hca json" | json 'd[0]["lid"]')" 9

set_hca b "state down"
wait_for 2 "traffic to end while the port is down" quiet
wait_for 2 "node b to say so" names 'not active'
set_hca b "state up"
heals 5 "port down and up"

joins() { link_field b 'counters"]["joins_sent'; }
before=$(joins)
set_hca b reregister
joined_again() { (($(joins) > before)) && link_up b; }
wait_for 5 "node b to join again" joined_again
heals 2 "client reregister"

expect_text "refused" "$(cli a "set hca soft0 lid 9")" '^error: soft0 runs the subnet administrator'
expect_text "refused" "$(cli b "set hca soft0 lid 50000")" '^error: at word 5 "50000"'
expect_text "refused" "$(cli b "set hca soft7 lid 5")" '^error: no hca soft7'
