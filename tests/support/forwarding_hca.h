// SPDX-License-Identifier: BSD-3-Clause
// An HCA that passes each call to another one: the base of devices that differ from it in a few.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/fabric/hca.h"

namespace ipoib::test {

class ForwardingHca : public fabric::Hca {
 public:
  [[nodiscard]] const fabric::PortAttr& attr() const override { return inner_->attr(); }
  [[nodiscard]] fabric::MadPort& mad_port() override { return inner_->mad_port(); }
  [[nodiscard]] fabric::Capabilities capabilities() const override {
    return inner_->capabilities();
  }
  Result<fabric::UdQueue*> create_ud_queue(const fabric::UdQueueConfig& config) override {
    return inner_->create_ud_queue(config);
  }
  void destroy_ud_queue(fabric::UdQueue& queue) override { inner_->destroy_ud_queue(queue); }
  Status set_qkey(fabric::UdQueue& queue, std::uint32_t qkey) override {
    return inner_->set_qkey(queue, qkey);
  }
  Status attach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override {
    return inner_->attach(queue, mgid, mlid);
  }
  Status detach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) override {
    return inner_->detach(queue, mgid, mlid);
  }
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr& attr) override {
    return inner_->create_ah(attr);
  }
  void destroy_ah(fabric::AhIndex ah) override { inner_->destroy_ah(ah); }
  std::optional<fabric::PortEvent> next_event() override { return inner_->next_event(); }
  [[nodiscard]] std::string problem() const override { return inner_->problem(); }
  [[nodiscard]] DropTotals drops() const override { return inner_->drops(); }

 protected:
  /// Differences from the abilities of the other HCA.
  struct Different {
    fabric::ConnectedTransport* connected = nullptr;  ///< In place of its own, if not null.
    bool captures = true;                             ///< False: it does not support captures.
  };
  explicit ForwardingHca(std::unique_ptr<fabric::Hca> inner, const Different& different)
      : Hca{inner->name(),
            {.connected = different.connected != nullptr ? different.connected
                                                         : inner->connected_transport(),
             .capture = different.captures ? inner->wire_capture() : nullptr,
             .setter = inner->port_setter(),
             .wire = inner->ethdev_wire(),
             .poll = &ForwardingHca::poll}},
        inner_{std::move(inner)} {}
  explicit ForwardingHca(std::unique_ptr<fabric::Hca> inner)
      : ForwardingHca{std::move(inner), Different{}} {}

  [[nodiscard]] fabric::Hca& inner() const { return *inner_; }

 private:
  static std::uint32_t poll(fabric::Hca& self, unsigned worker, std::uint16_t burst) noexcept {
    fabric::Hca& real = static_cast<ForwardingHca&>(self).inner();
    return real.poll_function()(real, worker, burst);
  }

  std::unique_ptr<fabric::Hca> inner_;
};

}  // namespace ipoib::test
