// One function per command: it adds the subcommand with its options, examples and callback.
// A callback sets `status` to the process's exit status or throws stalltrace::Error.
#pragma once

#include <CLI/CLI.hpp>

namespace stalltrace::cli {

void add_batch_command(CLI::App& app, int& status);
void add_disk_command(CLI::App& app, int& status);
void add_doctor_command(CLI::App& app, int& status);
void add_explain_command(CLI::App& app, int& status);
// Scenarios with more to them than a load: `run` is the command they belong to.
void add_dio_matrix_command(CLI::App& run, int& status);
void add_osync_command(CLI::App& run, int& status);
void add_powercut_command(CLI::App& run, int& status);
void add_run_command(CLI::App& app, int& status);
void add_trace_command(CLI::App& app, int& status);

}  // namespace stalltrace::cli
