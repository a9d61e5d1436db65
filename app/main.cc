// SPDX-License-Identifier: BSD-3-Clause
// The program: arguments, configuration, EAL, a node and its user interfaces. Only this file may
// end the process.
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/cli.h"
#include "app/cli/cli_server.h"
#include "app/cli/cli_terminal.h"
#include "app/config/config.h"
#include "app/export/prometheus.h"
#include "app/export/telemetry.h"
#include "app/hca_factory.h"
#include "app/options.h"
#include "app/service/journal.h"
#include "app/service/log_stream.h"
#include "app/service/periodic_stats.h"
#include "app/service/printer.h"
#include "app/service/service.h"
#include "lib/base/log.h"
#include "lib/fabric/eal_end.h"
#include "lib/mgmt/management_loop.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {
namespace {

constexpr std::chrono::milliseconds kTelemetryTimeout{2000};
constexpr const char* kVersion = "dpdk-ipoib " IPOIB_VERSION;

/// The command line, split at the first "--".
struct Arguments {
  std::vector<std::string> eal;  ///< Includes the program's name.
  std::vector<std::string> app;
};

Arguments split(int argc, char** argv) {
  Arguments a;
  bool behind = false;
  for (int i = 0; i < argc; ++i) {
    if (!behind && std::string_view{argv[i]} == "--")
      behind = true;
    else
      (behind ? a.app : a.eal).emplace_back(argv[i]);
  }
  return a;
}

void print_error(std::string_view line) {
  settle_log(LogWriter::kPatience);
  const char* const priority = is_journal(STDERR_FILENO) ? "<3>" : "";
  write_standard_error(fmt::format("{}{}\n", priority, line), LogWriter::kPatience);
}

/// Exit status if options or configuration are wrong: another start would fail, too. The systemd
/// unit does not restart the node.
constexpr int kConfigurationFault = EX_CONFIG;

int report_error(const Error& e) {
  print_error("dpdk-ipoib: " + e.what);
  notify_service_manager(e.what);
  return e.code == Errc::kInvalidArgument ? kConfigurationFault : EXIT_FAILURE;
}

/// Returns the configuration, or prints every fault and returns nothing.
std::optional<mgmt::NodeConfig> configure(const Options& options) {
  auto loaded = load_config(options.config_file, options.overrides);
  if (!loaded) {
    report_error(loaded.error());
    return std::nullopt;
  }
  for (const Diagnostic& d : loaded->diagnostics) print_error(d.to_string());
  if (!loaded->ok()) {
    notify_service_manager("invalid configuration");
    return std::nullopt;
  }
  loaded->config.auto_start = options.starts_forwarding();
  return std::move(loaded->config);
}

Status start_eal(std::vector<std::string> arguments, const Options& options) {
  if (options.mgmt_lcore) arguments.push_back(fmt::format("--main-lcore={}", *options.mgmt_lcore));
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  rte_errno = 0;
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) >= 0) return {};
  // Hugepages may be free and a file prefix unused at the next start; wrong arguments stay wrong.
  if (rte_errno == EINVAL)
    return fail(Errc::kInvalidArgument, "rte_eal_init(): invalid EAL arguments");
  return fail(Errc::kUnavailable, "rte_eal_init() failed; see the messages of EAL above");
}

mgmt::NodeLcores choose_lcores() {
  mgmt::NodeLcores lcores;
  lcores.management = rte_get_main_lcore();
  for (unsigned i = rte_get_next_lcore(-1U, 1, 0); i < RTE_MAX_LCORE;
       i = rte_get_next_lcore(i, 1, 0))
    lcores.workers.push_back(i);
  return lcores;
}

/// Returns a descriptor for SIGINT and SIGTERM; every thread started from here on blocks them.
Result<int> signal_descriptor() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const int fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return fail(Errc::kNoResources, "signalfd failed");
  return fd;
}

/// Longest waits for standard output to take statistics, and the output of the command file.
constexpr std::chrono::milliseconds kStatsPatience{20};
constexpr std::chrono::milliseconds kFilePatience{1000};

/// The user interfaces of a node; null if not requested.
struct Frontends {
  Printer standard_output{STDOUT_FILENO};
  std::unique_ptr<Telemetry> telemetry;
  std::unique_ptr<Prometheus> prometheus;
  std::unique_ptr<CliServer> server;
  std::unique_ptr<CliServer> read_server;
  std::unique_ptr<Terminal> terminal;
  std::unique_ptr<Periodic> stats;
  std::unique_ptr<Service> service;
};

Status start_frontends(const Options& options, const mgmt::NodeFaces& node, Cli& cli,
                       Frontends& frontends) {
  auto telemetry = Telemetry::create(node, run_on_management(node.loop, kTelemetryTimeout));
  if (!telemetry) return tl::make_unexpected(telemetry.error());
  frontends.telemetry = std::move(*telemetry);
  if (!options.prometheus.empty()) {
    auto prometheus = Prometheus::create(node, {options.prometheus, kVersion, kTelemetryTimeout});
    if (!prometheus) return tl::make_unexpected(prometheus.error());
    frontends.prometheus = std::move(*prometheus);
  }
  const auto serve_at = [&](const std::string& path, CliAccess access,
                            std::unique_ptr<CliServer>& server) -> Status {
    if (path.empty()) return {};
    auto created = CliServer::create(cli, node.loop.events(), path, access);
    if (!created) return tl::make_unexpected(created.error());
    server = std::move(*created);
    return {};
  };
  if (auto s = serve_at(options.cli_socket, CliAccess::kFull, frontends.server); !s) return s;
  if (auto s = serve_at(options.cli_read_socket, CliAccess::kReadOnly, frontends.read_server); !s)
    return s;
  if (auto s = frontends.standard_output.start(); !s) return s;
  const auto print_within = [&frontends](std::chrono::milliseconds patience) {
    return [&frontends, patience](std::string_view text) {
      settle_log_of_command();
      frontends.standard_output.print(text, patience);
    };
  };
  if (options.stats_period_s != 0) {
    auto stats = print_statistics(cli, node.loop.events(), options.stats_period_s,
                                  print_within(kStatsPatience));
    if (!stats) return tl::make_unexpected(stats.error());
    frontends.stats = std::move(*stats);
  }
  if (!options.cmdline_file.empty())
    if (auto s = run_command_file(cli, options.cmdline_file, print_within(kFilePatience)); !s)
      return s;
  if (options.interactive) {
    // The terminal writes to standard output itself.
    static_cast<void>(frontends.standard_output.wait(kFilePatience));
    auto terminal = Terminal::create(
        cli, node.loop.events(), STDIN_FILENO, STDOUT_FILENO,
        [&node] {
          // The end of the input after `quit` is no second request, which would cut a drain short.
          if (!node.loop.stop_requested()) node.loop.request_stop();
        },
        settle_log_of_command);
    if (!terminal) return tl::make_unexpected(terminal.error());
    frontends.terminal = std::move(*terminal);
  }
  auto service = Service::create(node);  // Last: reports that all of the above is ready.
  if (!service) return tl::make_unexpected(service.error());
  frontends.service = std::move(*service);
  return {};
}

int serve(const Options& options, const mgmt::NodeConfig& config, int signals) {
  const auto created = mgmt::Node::create(config, choose_lcores(), make_hca);
  if (!created) return report_error(created.error());
  const mgmt::NodeFaces& node = (*created)->faces();
  const auto watched = node.loop.events().watch(signals, EPOLLIN, [&](std::uint32_t) {
    signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) node.loop.request_stop();
  });
  if (!watched) return report_error(watched.error());

  Cli cli{node};
  Frontends frontends;
  // The node calls this when it runs, so that a command file finds its interfaces starting.
  Status opened;
  node.loop.post([&] {
    opened = start_frontends(options, node, cli, frontends);
    if (opened) return;
    node.loop.request_stop();
    node.loop.request_stop();  // without a drain
  });
  (*created)->run();
  return opened ? EXIT_SUCCESS : report_error(opened.error());
}

int run(int argc, char** argv) {
  const Arguments arguments = split(argc, argv);
  const auto options = parse_options(arguments.app);
  if (!options) return report_error(options.error()), kConfigurationFault;
  if (options->help) return fmt::print("{}", options_help()), EXIT_SUCCESS;
  if (options->help_config) return fmt::print("{}", config_reference()), EXIT_SUCCESS;
  if (options->help_cli) return fmt::print("{}", command_reference()), EXIT_SUCCESS;
  if (options->help_options) return fmt::print("{}", options_reference()), EXIT_SUCCESS;
  if (options->help_telemetry) return fmt::print("{}", telemetry_reference()), EXIT_SUCCESS;
  if (options->version) return fmt::print("{}\n", kVersion), EXIT_SUCCESS;

  const auto config = configure(*options);
  if (!config) return options->check ? EXIT_FAILURE : kConfigurationFault;
  if (options->check) return fmt::print("{}", print_config(*config)), EXIT_SUCCESS;

  const auto signals = signal_descriptor();
  if (!signals) return report_error(signals.error());
  std::signal(SIGPIPE, SIG_IGN);
  // EAL logs until the process ends.
  static LogWriter& log = *new LogWriter{standard_log_output(is_journal(STDERR_FILENO))};
  if (auto s = log_to(log); !s) return report_error(s.error());
  notify_service_manager("initialising memory and devices");
  if (auto s = start_eal(arguments.eal, *options); !s) return report_error(s.error());
  if (auto s = log.start(); !s) return report_error(s.error());
  const int result = serve(*options, *config, *signals);
  static_cast<void>(log.end(LogWriter::kPatience));
  fabric::end_eal();
  close(*signals);
  return result;
}

}  // namespace
}  // namespace ipoib::app

int main(int argc, char** argv) {
  return ipoib::app::run(argc, argv);
}
