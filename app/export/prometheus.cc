// SPDX-License-Identifier: BSD-3-Clause
#include "app/export/prometheus.h"

#include <rte_lcore.h>

#include <CivetServer.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <pthread.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "app/export/ask.h"
#include "app/export/metrics.h"
#include "lib/base/log.h"
#include "lib/wire/ip.h"

namespace ipoib::app {
namespace {

/// Threads that answer; a slow client occupies one until its timeout.
constexpr const char* kThreads = "8";
/// Timeout to receive a request, and to send an answer.
constexpr const char* kClientTimeoutMs = "2000";

class Collector final : public prometheus::Collectable {
 public:
  Collector(const mgmt::NodeFaces& node, Prometheus::Config config)
      : node_{node}, config_{std::move(config)} {}

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    const Sample sample = recent_sample();
    return sample ? metrics_of(*sample, config_.version) : metrics_of_silence();
  }
  void end() { ended_ = true; }

 private:
  using Clock = std::chrono::steady_clock;
  // Not on the stack: threads of Debian's civetweb have 100 KiB of it.
  using Sample = std::shared_ptr<const MetricsSample>;

  /// Returns the last sample, or a new one if that is too old; null if the node did not answer.
  /// Scrapes at the same time wait for the same answer, or for the same timeout.
  [[nodiscard]] Sample recent_sample() const {
    const std::lock_guard lock{mutex_};
    if (sampled_at_ && Clock::now() - *sampled_at_ < config_.max_age) return sample_;
    sample_ =
        ask<Sample>(
            node_.loop,
            [&node = node_] {
              return std::make_shared<const MetricsSample>(metrics_sample(node.view, node.stats));
            },
            config_.timeout, &ended_)
            .value_or(nullptr);
    sampled_at_ = Clock::now();
    return sample_;
  }

  const mgmt::NodeFaces& node_;
  Prometheus::Config config_;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  mutable Sample sample_;
  mutable std::optional<Clock::time_point> sampled_at_;
};

/// The first error that the HTTP server logged on this thread.
thread_local std::string error_text;

int take_error_text(const mg_connection*, const char* message) {
  if (error_text.empty()) error_text = message;
  log(LogArea::kApp, LogLevel::kDebug, "HTTP: {}", message);
  return 1;
}

/// Returns 0 to pass the request on to the exposer, which would also serve pages below its own.
int only_metrics(mg_connection* connection) {
  const mg_request_info& request = *mg_get_request_info(connection);
  if (std::string_view{request.request_method} != "GET")
    return mg_send_http_error(connection, 405, "only GET is allowed"), 405;
  if (std::string_view{request.local_uri} != "/metrics")
    return mg_send_http_error(connection, 404, "only /metrics exists"), 404;
  return 0;
}

Result<std::unique_ptr<prometheus::Exposer>> listen(const std::string& address) {
  constexpr unsigned kIp6Feature = 8;  // from <civetweb.h>
  if (address.front() == '[' && mg_check_feature(kIp6Feature) == 0)
    return fail(Errc::kUnavailable,
                "--prometheus {}: the HTTP server, civetweb {}, is built without IPv6", address,
                mg_version());
  CivetCallbacks callbacks;
  callbacks.log_message = take_error_text;
  callbacks.begin_request = only_metrics;
  error_text.clear();
  try {
    return std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address, "num_threads", kThreads,
                                 "request_timeout_ms", kClientTimeoutMs},
        &callbacks);
  } catch (const std::exception& e) {
    return fail(Errc::kNoResources, "--prometheus {}: {}", address,
                error_text.empty() ? e.what() : error_text);
  }
}

}  // namespace

Status check_listen_address(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto host = text.substr(0, colon);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const auto address = wire::parse_ip(brackets ? host.substr(1, host.size() - 2) : host);
  std::uint16_t port = 0;
  const auto digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (address && address->is_v4() != brackets && !digits.empty() && error == std::errc{} &&
      end == digits.data() + digits.size())
    return {};
  return fail(Errc::kInvalidArgument,
              "invalid value \"{}\", allowed: ADDRESS:PORT, or [ADDRESS]:PORT for IPv6; port "
              "0-65535, 0: a free port",
              text);
}

struct Prometheus::Server {
  std::shared_ptr<Collector> collector;
  std::unique_ptr<prometheus::Exposer> exposer;
};

Prometheus::Prometheus(std::unique_ptr<Server> server) : server_{std::move(server)} {}

Prometheus::~Prometheus() {
  server_->collector->end();
}

Result<std::unique_ptr<Prometheus>> Prometheus::create(const mgmt::NodeFaces& node,
                                                       const Config& config) {
  // Threads inherit the affinity of the thread that creates them.
  struct Start {
    const Config& config;
    Result<std::unique_ptr<prometheus::Exposer>> exposer;
  } start{config, nullptr};
  const auto run = [](void* argument) -> void* {
    auto& s = *static_cast<Start*>(argument);
    s.exposer = listen(s.config.address);
    return nullptr;
  };
  pthread_t thread;
  if (rte_ctrl_thread_create(&thread, "ipoib-http", nullptr, run, &start) != 0)
    return fail(Errc::kNoResources, "--prometheus: cannot create a thread");
  pthread_join(thread, nullptr);
  if (!start.exposer) return tl::make_unexpected(start.exposer.error());

  auto server = std::make_unique<Server>();
  server->collector = std::make_shared<Collector>(node, config);
  server->exposer = std::move(*start.exposer);
  server->exposer->RegisterCollectable(server->collector);
  std::unique_ptr<Prometheus> prometheus{new Prometheus{std::move(server)}};
  log(LogArea::kApp, LogLevel::kNotice, "serving metrics at http://{}:{}/metrics",
      config.address.substr(0, config.address.rfind(':')), prometheus->port());
  return prometheus;
}

std::uint16_t Prometheus::port() const {
  const auto ports = server_->exposer->GetListeningPorts();
  return ports.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(ports[0]);
}

}  // namespace ipoib::app
