// stalltrace: why a call was stuck, down to the root cause.

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "userspace/base/error.h"
#include "userspace/base/version.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/output.h"

namespace {

constexpr const char* kAbout =
    "Explains why an AIO submission, a direct write or an fsync was stuck: divides the call's "
    "time\n"
    "into parts, follows each wait to what it waited for, and names the root cause.";

constexpr const char* kExamples =
    "Examples:\n"
    "  stalltrace doctor                                  what can be seen on this kernel\n"
    "  stalltrace trace -d 20s                            explain the stalls of the next 20 "
    "seconds\n"
    "  stalltrace trace --dev /dev/sdb -- fio job.fio     ... of a program, on one device\n"
    "  stalltrace run chunk-server --dir /mnt/test        run a load of ours and explain its "
    "stalls\n"
    "  stalltrace batch --dir /mnt/test                   what fsync batching gains on a device\n"
    "  stalltrace disk create slow --flush 20ms           a disk with a slow flush to try it on\n"
    "  dmesg | stalltrace explain                         what a hung-task report says\n"
    "\n"
    "Exit status: 0 done, 1 failed midway, 2 bad usage or input, 3 kernel or privileges refuse.";

// CLI11 says of a wrong command only that one is required: name the word that is none.
void check_command_names(CLI::App& app, int argc, char** argv) {
  CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    std::vector<CLI::App*> commands = at->get_subcommands([](CLI::App*) { return true; });
    if (commands.empty()) return;
    if (argv[i][0] == '-') {
      if (at->get_option_no_throw(argv[i]) != nullptr) return;
      throw stalltrace::usage_error("there is no option '{}' (see --help)", argv[i]);
    }
    auto named = std::find_if(commands.begin(), commands.end(),
                              [&](CLI::App* one) { return one->get_name() == argv[i]; });
    if (named == commands.end()) {
      std::string choices;
      for (CLI::App* one : commands) choices += (choices.empty() ? "" : ", ") + one->get_name();
      throw stalltrace::usage_error("there is no '{}': it is one of {}", argv[i], choices);
    }
    at = *named;
  }
}

int fail(stalltrace::ExitCode code, const std::string& message) {
  stalltrace::cli::say(message);
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  using stalltrace::ExitCode;
  // A reader that goes away (`| head`) is an error to report, not a death that leaves things
  // behind.
  std::signal(SIGPIPE, SIG_IGN);

  // A file opened later must not become standard output by taking a closed one's number.
  int spare = 0;
  while (spare >= 0 && spare <= STDERR_FILENO) spare = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (spare >= 0) close(spare);

  CLI::App app{kAbout, "stalltrace"};
  app.set_version_flag("--version", "stalltrace " STALLTRACE_VERSION);
  app.footer(kExamples);
  app.require_subcommand(1);
  // As with most tools, an option given again replaces what was said before.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  int status = 0;
  try {
    stalltrace::cli::add_run_command(app, status);
    stalltrace::cli::add_trace_command(app, status);
    stalltrace::cli::add_batch_command(app, status);
    stalltrace::cli::add_disk_command(app, status);
    stalltrace::cli::add_doctor_command(app, status);
    stalltrace::cli::add_explain_command(app, status);
    check_command_names(app, argc, argv);
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) {
      return fail(ExitCode::kFailed,
                  std::string("standard output cannot be written: ") + strerror(errno));
    }
    return status;
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& wrong) {
    std::string line = wrong.what();
    return fail(ExitCode::kUsage, line + " (see --help)");
  } catch (const stalltrace::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::kFailed, error.what());
  }
}
