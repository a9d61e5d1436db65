// The program: arguments, configuration, EAL, a node, and the ways to talk to it. Alone may end
// the process.
#include <rte_eal.h>
#include <rte_lcore.h>

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "app/config.h"
#include "app/hca_factory.h"
#include "app/options.h"
#include "lib/base/log.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {
namespace {

constexpr const char* kVersion = "dpdk-ipoib " IPOIB_VERSION;

/// The command line, cut at the first "--".
struct Arguments {
  std::vector<std::string> eal;  ///< With the program's name.
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

int complain(const Error& e) {
  fmt::print(stderr, "dpdk-ipoib: {}\n", e.what);
  return EXIT_FAILURE;
}

/// The configuration, or nothing after every fault of it was printed.
std::optional<mgmt::NodeConfig> configure(const Options& options) {
  auto loaded = load_config(options.config_file, options.overrides);
  if (!loaded) {
    complain(loaded.error());
    return std::nullopt;
  }
  for (const Diagnostic& d : loaded->diagnostics) fmt::print(stderr, "{}\n", d.to_string());
  if (!loaded->ok()) return std::nullopt;
  loaded->config.auto_start = options.starts_forwarding();
  return std::move(loaded->config);
}

Status start_eal(std::vector<std::string> arguments, const Options& options) {
  if (options.mgmt_lcore) arguments.push_back(fmt::format("--main-lcore={}", *options.mgmt_lcore));
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0)
    return fail(Errc::kInvalidArgument, "EAL does not start with these arguments");
  return {};
}

mgmt::NodeLcores choose_lcores() {
  mgmt::NodeLcores lcores;
  lcores.management = rte_get_main_lcore();
  for (unsigned i = rte_get_next_lcore(-1U, 1, 0); i < RTE_MAX_LCORE;
       i = rte_get_next_lcore(i, 1, 0))
    lcores.workers.push_back(i);
  return lcores;
}

/// SIGINT and SIGTERM as a descriptor; every thread started from here on blocks them.
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

int serve(const Options& options, const mgmt::NodeConfig& config, int signals) {
  auto node = mgmt::Node::create(config, choose_lcores(), make_hca);
  if (!node) return complain(node.error());
  auto watched = (*node)->events().watch(signals, EPOLLIN, [&](std::uint32_t) {
    signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) (*node)->request_stop();
  });
  if (!watched) return complain(watched.error());
  static_cast<void>(options);
  (*node)->run();
  return EXIT_SUCCESS;
}

int run(int argc, char** argv) {
  const Arguments arguments = split(argc, argv);
  const auto options = parse_options(arguments.app);
  if (!options) return complain(options.error());
  if (options->help) return fmt::print("{}", options_help()), EXIT_SUCCESS;
  if (options->help_config) return fmt::print("{}", config_reference()), EXIT_SUCCESS;
  if (options->version) return fmt::print("{}\n", kVersion), EXIT_SUCCESS;

  const auto config = configure(*options);
  if (!config) return EXIT_FAILURE;
  if (options->check) return fmt::print("{}", print_config(*config)), EXIT_SUCCESS;

  const auto signals = signal_descriptor();
  if (!signals) return complain(signals.error());
  std::signal(SIGPIPE, SIG_IGN);
  if (auto s = start_eal(arguments.eal, *options); !s) return complain(s.error());
  const int result = serve(*options, *config, *signals);
  rte_eal_cleanup();
  close(*signals);
  return result;
}

}  // namespace
}  // namespace ipoib::app

int main(int argc, char** argv) {
  return ipoib::app::run(argc, argv);
}
