#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A second user of a node's port joins and leaves groups at OpenSM, as the kernel's ib_ipoib does, in both orders of
# start, each with both orders of stop. OpenSM counts a port once in a group, so that each leave ends the membership of
# both. The node does not end the other user's memberships, and is a member again after the other user has left. Without
# the option, the node's end takes the other user out of its groups.
# shows: U-33
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# memberships: those of node b's port in the broadcast group and in the all-hosts group.
memberships() { held | grep -E "^ff12:401b:ffff::(ffff:ffff|1) $(port_gid H3) " || true; }
both() { (($(memberships | grep -c ' 1$') == 2)); }
none() { [[ -z $(memberships) ]]; }

# user_begin: starts the second user at node b's port. user_does COMMAND: waits for OpenSM's answers.
user_begin() {
  mkfifo "$LAB_DIR/user.in"
  touch "$LAB_DIR/user.out"
  LAB_LOGS+=(user)
  at_port H3 "$IPOIB_BUILD/tests/lab/port_user" <>"$LAB_DIR/user.in" >"$LAB_DIR/user.out" 2>"$LAB_DIR/user.log" &
  LAB_PIDS+=($!)
}
user_done() { (($(wc -l <"$LAB_DIR/user.out") == $1)); }
user_does() {
  local before
  before=$(wc -l <"$LAB_DIR/user.out")
  echo "$1" >"$LAB_DIR/user.in"
  wait_for 30 "the second user to be $1" user_done $((before + 1))
}
node_begin() {
  LINK_LINES[b]="shared-port = \"$1\""
  scenario_config b
  scenario_node b
  wait_for 20 "the link of node b to come up" links_up b
}

lab_begin labshared
subnet_begin
sm_start
subnet_up
scenario_host b
user_begin

# The other user is there first and stays.
user_does up
wait_for 5 "OpenSM to know the second user" both
node_begin yes
node_stop b
both || fail "node b ended the memberships of its port: $(held)"
say "other user first, node b started and stopped: the port is a member of both groups"

# The node is there first and stays.
user_does down
wait_for 5 "OpenSM to forget the second user" none
member() { memberships | grep -q 'ffff:ffff .* 1$'; }
# user_leaves FIRST: the second user ends the memberships of the port, and the node stays. FIRST names who was there
# first.
user_leaves() {
  local begin
  user_does down
  begin=$(now_ms)
  wait_for 10 "node b to be a member again" member
  say "$1 first, other user left, node b stayed: it is a member again after $(took "$begin")"
  links_up b || fail "the link of node b is not up"
}
node_begin yes
user_does up
user_leaves "node b"

# The node, which was there first, stops, and the other user stays.
user_does up
node_stop b
both || fail "node b ended the memberships of the user that came later: $(held)"
say "node b first, other user came, node b stopped: the port is a member of both groups"

# The other user is there first and leaves; the node stays.
node_begin yes
user_leaves "other user"

# Both stop, the node last: its memberships stay with the port.
node_stop b
member || fail "node b left the broadcast group of a shared port: $(held)"

# A port that is not shared.
user_does up
wait_for 5 "OpenSM to know the second user" both
node_begin no
node_stop b
left() { ! member; }
wait_for 5 "the leave of node b to end the membership of the port" left
say "without the option, the end of node b ended the membership of the port"
no_complaints
