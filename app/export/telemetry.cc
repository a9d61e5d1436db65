// SPDX-License-Identifier: BSD-3-Clause
#include "app/export/telemetry.h"

#include <rte_telemetry.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "app/export/ask.h"

namespace ipoib::app {
namespace {

/// The node that the handlers query: a global, because DPDK 22.11 passes no argument of the
/// application to them. Handlers, on telemetry's threads, hold the lock shared during a query.
struct {
  std::shared_mutex mutex;
  const mgmt::NodeFaces* node = nullptr;
  QueryRunner run;
} target;

struct Endpoint {
  const char* command;
  const char* answers;
  const char* parameters;  ///< After the command and a comma; empty: none.
};

constexpr std::array kEndpoints = {
    Endpoint{"/ipoib/links", "Names of the IPoIB links", ""},
    Endpoint{"/ipoib/link", "State and counters of a link", "LINK"},
    Endpoint{"/ipoib/ports", "Names of the Ethernet ports", ""},
    Endpoint{"/ipoib/port", "State and counters of a port", "PORT"},
    Endpoint{"/ipoib/xstats", "Counters of a link, port or hca", "NAME"},
    Endpoint{"/ipoib/neighbours", "Neighbours", "[INTERFACE][,FIRST]"},
    Endpoint{"/ipoib/groups", "Multicast groups", "[INTERFACE][,FIRST]"},
    Endpoint{"/ipoib/queriers", "Queriers of IGMP and MLD", "[INTERFACE][,FIRST]"},
    Endpoint{"/ipoib/connections", "Connections", "[LINK][,FIRST]"},
    Endpoint{"/ipoib/routes", "Routes", "[FIRST]"},
    Endpoint{"/ipoib/multicast_routes", "Multicast routes", "[FIRST]"},
    Endpoint{"/ipoib/filters", "Filter rules", "[FIRST]"},
    Endpoint{"/ipoib/hcas", "InfiniBand ports", ""},
    Endpoint{"/ipoib/sa", "Requests to the SA, and MADs", ""},
    Endpoint{"/ipoib/mirrors", "Mirrors of interfaces in Linux, and its routes", ""},
    Endpoint{"/ipoib/proxies", "Groups of interfaces that share their subnets", ""},
    Endpoint{"/ipoib/proxy_hosts", "Hosts of shared subnets", "[FIRST]"},
    Endpoint{"/ipoib/shared", "Addresses that links share with other nodes", ""},
    Endpoint{"/ipoib/sa_groups", "Groups of the embedded SA", "HCA[,FIRST]"},
    Endpoint{"/ipoib/sa_ports", "Ports known to the embedded SA", "HCA[,FIRST]"},
    Endpoint{"/ipoib/workers", "Worker lcores", ""},
    Endpoint{"/ipoib/forward", "Forward mode", ""},
    Endpoint{"/ipoib/forward_stats", "Statistics by interface, total and by lcore", ""},
    Endpoint{"/ipoib/management", "Turns of the management lcore", ""},
    Endpoint{"/ipoib/latency", "Latency of packets with time stamps", ""},
    Endpoint{"/ipoib/trace", "Packets of the trace", "[FIRST]"},
    Endpoint{"/ipoib/capture", "The capture in progress, or the last one", ""},
    Endpoint{"/ipoib/drops", "Dropped packets by place and reason", ""},
    Endpoint{"/ipoib/config", "Names of sections, or a section", "[SECTION[,FIRST]]"},
};

/// DPDK's help of a command: at most 63 characters.
std::string help_of(const Endpoint& e) {
  if (*e.parameters == '\0') return fmt::format("{}. No parameters", e.answers);
  return fmt::format("{}. Parameters: {}", e.answers, e.parameters);
}

int answer(const char* command, const char* parameters, rte_tel_data* data) {
  const std::shared_lock lock{target.mutex};
  if (target.node == nullptr) return -EAGAIN;
  const Json value =
      target.run([node = target.node, command = std::string{command},
                  parameters = std::string{parameters != nullptr ? parameters : ""}] {
        return telemetry_answer(*node, command, parameters);
      });
  return to_telemetry(value, data) ? 0 : -EINVAL;
}

/// Replaces characters that keys may not have: all except letters, digits and underscores.
std::string telemetry_key(std::string_view text) {
  std::string key{text};
  for (char& c : key) {
    const bool good =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!good) c = '_';
  }
  return key;
}

rte_tel_data* container_of(const Json& value) {
  rte_tel_data* data = rte_tel_data_alloc();
  if (data != nullptr && !to_telemetry(value, data)) {
    rte_tel_data_free(data);
    return nullptr;
  }
  return data;
}

void add(rte_tel_data* dict, const std::string& key, const Json& value) {
  if (value.is_structured()) {
    rte_tel_data* data = container_of(value);
    if (data != nullptr && rte_tel_data_add_dict_container(dict, key.c_str(), data, 0) != 0)
      rte_tel_data_free(data);
  } else if (value.is_string()) {
    rte_tel_data_add_dict_string(dict, key.c_str(), value.get<std::string>().c_str());
  } else if (value.is_boolean()) {
    rte_tel_data_add_dict_int(dict, key.c_str(), value.get<bool>() ? 1 : 0);
  } else if (value.is_number_float()) {
    rte_tel_data_add_dict_u64(dict, key.c_str(),
                              static_cast<std::uint64_t>(std::llround(value.get<double>())));
  } else if (value.is_number()) {
    rte_tel_data_add_dict_u64(dict, key.c_str(), value.get<std::uint64_t>());
  }
}

void fill_dict(const Json& object, rte_tel_data* data) {
  rte_tel_data_start_dict(data);
  for (const auto& [key, value] : object.items()) add(data, telemetry_key(key), value);
}

/// Items that are all strings or all numbers become an array, any others an object.
void fill_list(const Json& list, rte_tel_data* data) {
  const auto all = [&](auto is) { return std::all_of(list.begin(), list.end(), is); };
  if (all([](const Json& v) { return v.is_string(); })) {
    rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
    for (const Json& v : list) rte_tel_data_add_array_string(data, v.get<std::string>().c_str());
  } else if (all([](const Json& v) { return v.is_number(); })) {
    rte_tel_data_start_array(data, RTE_TEL_U64_VAL);
    for (const Json& v : list) rte_tel_data_add_array_u64(data, v.get<std::uint64_t>());
  } else {
    rte_tel_data_start_dict(data);
    for (std::size_t i = 0; i < list.size(); ++i) add(data, std::to_string(i), list[i]);
  }
}

}  // namespace

std::string telemetry_reference() {
  std::string out = "| command | parameters | answer |\n| --- | --- | --- |\n";
  for (const Endpoint& e : kEndpoints) {
    const std::string cell = *e.parameters == '\0' ? "" : fmt::format("`{}`", e.parameters);
    out += fmt::format("| `{}` | {} | {} |\n", e.command, cell, e.answers);
  }
  return out;
}

Status to_telemetry(const Json& value, rte_tel_data* data) {
  if (value.is_object()) {
    fill_dict(value, data);
  } else if (value.is_array()) {
    fill_list(value, data);
  } else {
    return fail(Errc::kInvalidArgument, "telemetry: the answer is neither an object nor a list");
  }
  return {};
}

QueryRunner run_on_management(mgmt::ManagementLoop& loop, std::chrono::milliseconds timeout) {
  return [&loop, timeout](const Query& query) {
    return ask<Json>(loop, query, timeout).value_or(Json{});
  };
}

Result<std::unique_ptr<Telemetry>> Telemetry::create(const mgmt::NodeFaces& node, QueryRunner run) {
  const std::unique_lock lock{target.mutex};
  if (target.node != nullptr)
    return fail(Errc::kExists, "telemetry: another node of this process has registered it");
  static const bool registered = std::all_of(kEndpoints.begin(), kEndpoints.end(), [](auto& e) {
    return rte_telemetry_register_cmd(e.command, answer, help_of(e).c_str()) == 0;
  });
  if (!registered)
    return fail(Errc::kNoResources, "telemetry: rte_telemetry_register_cmd() failed");
  target.node = &node;
  target.run = std::move(run);
  return std::unique_ptr<Telemetry>{new Telemetry};
}

Telemetry::~Telemetry() {
  const std::unique_lock lock{target.mutex};
  target.node = nullptr;
  target.run = nullptr;
}

}  // namespace ipoib::app
