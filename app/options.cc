// SPDX-License-Identifier: BSD-3-Clause
#include "app/options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include "app/config/config_schema.h"
#include "app/config/markdown.h"
#include "app/export/prometheus.h"

namespace ipoib::app {
namespace {

constexpr unsigned kMaxLcore = 1023;
constexpr unsigned kMaxStatsPeriod = 86'400;

/// An argument that sets one option of the configuration file.
struct Shorthand {
  const char* argument;
  std::string_view section;
  std::string_view key;
  const char* value_name;       ///< Null: the argument takes no value
  const char* value = nullptr;  ///< and sets this one.
};

constexpr std::array kShorthands = {
    Shorthand{"--forward-mode", "worker", "forward-mode", "MODE"},
    Shorthand{"--burst", "worker", "burst", "N"},
    Shorthand{"--nb-cores", "worker", "count", "N"},
    Shorthand{"--rxd", "worker", "rxd", "N"},
    Shorthand{"--txd", "worker", "txd", "N"},
    Shorthand{"--total-num-mbufs", "worker", "total-num-mbufs", "N"},
    Shorthand{"--mbuf-size", "worker", "mbuf-size", "N"},
    Shorthand{"--idle-policy", "worker", "idle-policy", "POLICY"},
    Shorthand{"--tx-ip", "generator", "tx-ip", "SRC,DST"},
    Shorthand{"--tx-udp", "generator", "tx-udp", "SRC[,DST]"},
    Shorthand{"--txpkts", "generator", "txpkts", "LEN[,LEN]*"},
    Shorthand{"--flowgen-flows", "generator", "flows", "N"},
    Shorthand{"--txonly-multi-flow", "generator", "txonly-multi-flow", nullptr, "true"},
    Shorthand{"--tx-first", "generator", "tx-first", nullptr, "1"},
};

void add_shorthands(CLI::App& app, Options& options) {
  for (const auto& s : kShorthands) {
    const auto take = [&options, s](const std::string& argument, const std::string& value) {
      options.overrides.push_back({argument, fmt::format("{}.{}", s.section, s.key), value});
    };
    const std::string help = help_of(s.section, s.key);
    if (s.value_name == nullptr)
      app.add_flag_callback(
             s.argument, [take, s] { take(s.argument, s.value); }, help)
          ->trigger_on_parse();
    else
      app.add_option_function<std::string>(
             s.argument,
             [take, s](const std::string& value) {
               take(fmt::format("{}={}", s.argument, value), value);
             },
             help)
          ->option_text(s.value_name)
          ->trigger_on_parse();
  }
}

void add_set(CLI::App& app, Options& options) {
  const auto take = [&options](const std::vector<std::string>& values) {
    for (const auto& text : values) {
      const auto equals = text.find('=');
      if (equals == std::string::npos)
        throw CLI::ValidationError(
            "--set", fmt::format("invalid value {}, allowed: section.key=value", quote(text)));
      options.overrides.push_back(
          {"--set " + text, text.substr(0, equals), text.substr(equals + 1)});
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--set", take, "override an option of the configuration file; can be repeated")
      ->option_text("SECTION.KEY=VALUE")
      ->allow_extra_args(false)
      ->trigger_on_parse();
}

void add_options(CLI::App& app, Options& options) {
  app.set_help_flag();
  app.name("dpdk-ipoib [EAL arguments] --");
  app.add_flag("-i,--interactive", options.interactive, "start the interactive command line");
  app.add_flag("-a,--auto-start", options.auto_start,
               "start forwarding at once; the default without -i");
  app.add_option("--cmdline-file", options.cmdline_file,
                 "execute the commands of this file at start")
      ->option_text("FILE");
  app.add_option(
         "--stats-period", options.stats_period_s,
         fmt::format("print the output of show port stats all every N seconds, 0-{}; 0: never",
                     kMaxStatsPeriod))
      ->option_text("N")
      ->check(CLI::Range(0U, kMaxStatsPeriod));
  app.add_option("--config", options.config_file, "path of the configuration file")
      ->option_text("FILE");
  app.add_option("--mgmt-lcore", options.mgmt_lcore,
                 "lcore of the control plane; default: the main lcore of EAL")
      ->option_text("N")
      ->check(CLI::Range(0U, kMaxLcore));
  app.add_option("--cli-socket", options.cli_socket, "serve the command line on this Unix socket")
      ->option_text("PATH");
  app.add_option("--cli-read-socket", options.cli_read_socket,
                 "serve the commands that change nothing, show and help, on this Unix socket")
      ->option_text("PATH");
  app.add_option(
         "--prometheus", options.prometheus,
         "serve metrics at http://ADDRESS:PORT/metrics; port 0: a free port, which is logged")
      ->option_text("ADDRESS:PORT")
      ->check([](const std::string& text) {
        const auto good = check_listen_address(text);
        return good ? std::string{} : good.error().what;
      });
  add_shorthands(app, options);
  add_set(app, options);
  app.add_flag("--check", options.check,
               "check the configuration, print it, and exit with status 0 or 1");
  app.add_flag("--help-config", options.help_config, "print all options of the configuration file");
  app.add_flag("--help-cli", options.help_cli, "print all commands of the command line");
  app.add_flag("--help-options", options.help_options, "print these options as a table");
  app.add_flag("--help-telemetry", options.help_telemetry, "print all commands of telemetry");
  app.add_flag("-h,--help", options.help, "print this help");
  app.add_flag("-v,--version", options.version, "print the version");
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& args) {
  Options options;
  CLI::App app;
  add_options(app, options);
  try {
    std::vector<std::string> reversed{args.rbegin(), args.rend()};  // CLI11 expects this order.
    app.parse(std::move(reversed));
  } catch (const CLI::Error& e) {
    return fail(Errc::kInvalidArgument, "{}; see --help", e.what());
  }
  return options;
}

std::string options_help() {
  Options options;
  CLI::App app;
  add_options(app, options);
  return app.help();
}

std::string options_reference() {
  Options options;
  CLI::App app;
  add_options(app, options);
  std::string out = "| option | meaning |\n| --- | --- |\n";
  for (const CLI::Option* option : app.get_options()) {
    const std::string& value = option->get_option_text();
    out +=
        fmt::format("| `{}{}{}` | {} |\n", option->get_name(false, true), value.empty() ? "" : " ",
                    markdown_cell(value), markdown_cell(option->get_description()));
  }
  return out;
}

}  // namespace ipoib::app
