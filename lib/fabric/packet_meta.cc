// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fabric/packet_meta.h"

#include <rte_errno.h>

namespace ipoib::fabric {

Status register_packet_meta() {
  static constexpr rte_mbuf_dynfield kField = {.name = "ipoib_packet_meta",
                                               .size = sizeof(PacketMeta),
                                               .align = alignof(PacketMeta),
                                               .flags = 0};
  packet_meta_offset = rte_mbuf_dynfield_register(&kField);
  if (packet_meta_offset < 0)
    return fail(Errc::kNoResources,
                "cannot register the dynamic mbuf field of the packet metadata: {}",
                rte_strerror(rte_errno));
  return {};
}

}  // namespace ipoib::fabric
