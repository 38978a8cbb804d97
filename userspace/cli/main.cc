// stalltrace: why a call was stuck, down to the root cause.

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <exception>

#include "userspace/base/error.h"
#include "userspace/base/version.h"
#include "userspace/cli/commands.h"

namespace {

constexpr const char* kAbout =
    "Explains why an AIO submission, a direct write or an fsync was stuck: divides the call's time\n"
    "into parts, follows each wait to what it waited for, and names the root cause.";

constexpr const char* kExamples =
    "Examples:\n"
    "  stalltrace doctor                                  what can be seen on this kernel\n"
    "  stalltrace trace -d 20s                            explain the stalls of the next 20 seconds\n"
    "  stalltrace trace --dev /dev/sdb -- fio job.fio     ... of a program, on one device\n"
    "  stalltrace run chunk-server --dir /mnt/test        run a load of ours and explain its stalls\n"
    "  stalltrace disk create slow --flush 20ms           a disk with a slow flush to try it on\n"
    "\n"
    "Exit status: 0 done, 1 failed midway, 2 bad usage or input, 3 kernel or privileges refuse.";

int fail(stalltrace::ExitCode code, const char* message) {
  fmt::print(stderr, "stalltrace: {}\n", message);
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  using stalltrace::ExitCode;
  // A reader that goes away (`| head`) is an error to report, not a death that leaves things behind.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app{kAbout, "stalltrace"};
  app.set_version_flag("--version", "stalltrace " STALLTRACE_VERSION);
  app.footer(kExamples);
  app.require_subcommand(0, 1);
  app.allow_extras();  // so that a command that does not exist can be named in the error
  app.callback([&app] {
    if (!app.get_subcommands().empty()) return;
    std::vector<std::string> words = app.remaining();
    if (words.empty()) throw stalltrace::usage_error("name a command (see --help)");
    throw stalltrace::usage_error("there is no command or option '{}' (see --help)", words.front());
  });
  int status = 0;
  try {
    stalltrace::cli::add_run_command(app, status);
    stalltrace::cli::add_trace_command(app, status);
    stalltrace::cli::add_disk_command(app, status);
    stalltrace::cli::add_doctor_command(app, status);
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) return fail(ExitCode::kFailed, "standard output was closed");
    return status;
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& wrong) {
    std::string line = wrong.what();
    return fail(ExitCode::kUsage, (line + " (see --help)").c_str());
  } catch (const stalltrace::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::kFailed, error.what());
  }
}
