// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/queue_pair.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "lib/base/contract.h"

namespace ipoib::verbs {
namespace {

/// Most octets that are copied into a work request instead of fetched by the device: small IP
/// packets with their IPoIB header.
constexpr std::uint32_t kInline = 128;

std::string_view name_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC: return "RC";
    case IBV_QPT_UC: return "UC";
    default: return "UD";
  }
}

bool is_missing_feature(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == ENOTSUP;
}

}  // namespace

Result<QueuePair> create_qp(Device& device, unsigned worker, ibv_qp_init_attr_ex wanted,
                            const SendLimits& limits) {
  wanted.pd = device.queue_pd(worker);
  wanted.cap.max_send_wr = limits.depth;
  wanted.cap.max_send_sge = limits.max_sge;
  int error = 0;
  for (const std::uint32_t octets : {kInline, kInline / 2, 0U}) {
    for (const bool extended : {true, false}) {
      ibv_qp_init_attr_ex attr = wanted;
      attr.cap.max_inline_data = octets;
      attr.comp_mask =
          IBV_QP_INIT_ATTR_PD | (extended ? std::uint32_t{IBV_QP_INIT_ATTR_SEND_OPS_FLAGS} : 0U);
      attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
      errno = 0;
      QueuePair made;
      made.qp.reset(ibv_create_qp_ex(device.context(), &attr));
      if (made.qp != nullptr) {
        if (extended) made.extended = ibv_qp_to_qp_ex(made.qp.get());
        made.limits = limits;
        made.limits.max_inline = std::min(attr.cap.max_inline_data, kInline);
        return made;
      }
      error = errno;
      if (!is_missing_feature(error))
        return fail(Errc::kNoResources, "cannot create a {} queue pair of {} work requests: {}",
                    name_of(wanted.qp_type), limits.depth, std::strerror(error));
    }
  }
  return fail(Errc::kRefused, "the device cannot create a {} queue pair of {} work requests{}: {}",
              name_of(wanted.qp_type), limits.depth,
              wanted.srq != nullptr ? " with a shared receive queue" : "", std::strerror(error));
}

CqPtr create_cq(Device& device, unsigned worker, std::uint32_t entries) {
  if (device.has_thread_domain(worker)) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = entries;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    attr.parent_domain = device.queue_pd(worker);
    errno = 0;
    if (ibv_cq_ex* const cq = ibv_create_cq_ex(device.context(), &attr); cq != nullptr)
      return CqPtr{ibv_cq_ex_to_cq(cq)};
    if (!is_missing_feature(errno)) return nullptr;
  }
  return CqPtr{ibv_create_cq(device.context(), static_cast<int>(entries), nullptr, nullptr, 0)};
}

SendLimits send_limits(const Device& device, std::uint32_t wanted, std::uint32_t max_sge) {
  const auto max = static_cast<std::uint32_t>(
      std::max(1, std::min(device.attr().max_qp_wr, device.attr().max_cqe)));
  SendLimits limits;
  limits.depth = std::bit_floor(std::min(wanted, max));
  limits.max_sge =
      std::min(static_cast<std::uint32_t>(std::max(1, device.attr().max_sge)), max_sge);
  limits.checksum = device.has(IBV_DEVICE_UD_IP_CSUM);
  return limits;
}

std::uint32_t next_queue_number() {
  expects_management();
  static std::uint32_t last = 0;
  return ++last;
}

int modify(ibv_qp& qp, ibv_qp_state state, ibv_qp_attr attr, int mask) {
  attr.qp_state = state;
  return ibv_modify_qp(&qp, &attr, IBV_QP_STATE | mask);
}

}  // namespace ipoib::verbs
