// SPDX-License-Identifier: BSD-3-Clause
// Stage source_check: drops unicast packets whose source is not where the routes say (unicast
// reverse path forwarding), so that no host can send in the name of one behind another interface.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Removes the packets that InterfaceEntry::source_check of their ingress interface does not allow.
/// Callers leave out interfaces with kOff; one that became kOff just now may be checked once more, as
/// strictly as before or more so. Link-local and unspecified sources, which are never forwarded, stay.
///
/// Shape:  the packets passed the input stage of their IP version; order is kept.
/// Errors: kIpSourceCheck.
/// Source: RFC 3704 §2.2 (strict), RFC 3704 §2.3 (each path of ECMP), RFC 3704 §2.4 (loose).
void source_check4(Context& c, const Ingress& in, Ip4Burst& ip) noexcept;
void source_check6(Context& c, const Ingress& in, Ip6Burst& ip) noexcept;

}  // namespace ipoib::fwd
