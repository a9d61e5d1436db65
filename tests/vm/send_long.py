#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sends a datagram that is longer than a node's receive buffers.

  send_long.py DEVICE GID QPN QKEY OCTETS

Sends to the UD queue pair QPN at GID from a new queue pair on DEVICE. If a datagram does not fit, rdma_rxe puts the
receiving queue pair into the error state. With a real HCA no packet from outside does that.
"""
import ipaddress
import sys
import time

from pyverbs import enums as e
from pyverbs.addr import AHAttr, AH, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

TIMEOUT_S = 10.0


def main():
    device, gid = sys.argv[1], ipaddress.ip_address(sys.argv[2]).exploded
    qpn, qkey, octets = (int(x, 0) for x in sys.argv[3:])
    context = Context(name=device)
    pd = PD(context)
    cq = CQ(context, 1)
    attr = QPAttr(port_num=1)
    attr.qkey = qkey
    init = QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=1))
    qp = QP(pd, init, attr)
    memory = MR(pd, octets, e.IBV_ACCESS_LOCAL_WRITE)
    route = GlobalRoute(dgid=GID(gid), sgid_index=0, hop_limit=1)
    handle = AH(pd, attr=AHAttr(port_num=1, is_global=1, gr=route))
    request = SendWR(num_sge=1, sg=[SGE(memory.buf, octets, memory.lkey)])
    request.set_wr_ud(handle, qpn, qkey)
    qp.post_send(request)
    end = time.monotonic() + TIMEOUT_S
    while True:
        n, completions = cq.poll()
        if n:
            break
        if time.monotonic() > end:
            sys.exit("not sent")
    if completions[0].status != e.IBV_WC_SUCCESS:
        sys.exit(f"not sent: status {completions[0].status}")


main()
