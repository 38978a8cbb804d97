// The output options that every reporting command has, and the writing of a report by them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/report/report.h"
#include "userspace/report/text.h"

namespace stalltrace::cli {

// A file's name is not empty.
extern const CLI::Validator kNamed;

struct OutputWords {
  std::string threshold = "10ms";
  std::string json;
  bool quiet = false;
  std::vector<std::string> disabled_hooks;
};

void add_output_options(CLI::App& command, OutputWords& words);
void add_hook_option(CLI::App& command, std::vector<std::string>& names);

// Refuses, before anything is started, what could not be written at the end.
void check_outputs(const OutputWords& words);

// The same of one file. Throws a usage Error that names `option`.
void check_writable(const std::string& path, const std::string& option);

// The terminal's width or COLUMNS; colours on a terminal only, and not with NO_COLOR.
report::TextStyle terminal_style();

// Text to standard output (unless quiet or JSON goes there), JSON where it was asked for.
void write_report(const report::Report& report, const OutputWords& words);

// To a file (0600, whole or not at all) or, for "-", to standard output. Throws a failed Error that
// names `option`.
void write_text(const std::string& path, const std::string& option, const std::string& text);
// The same, given piece by piece.
using Pieces = std::function<void(const std::function<void(std::string_view)>& put)>;
void write_pieces(const std::string& path, const std::string& option, const Pieces& pieces);

// The command line as the report keeps it.
std::vector<std::string> command_line();

// "stalltrace: WORDS" on standard error, in place, only on a terminal.
void show_progress(const std::string& words);
void clear_progress();

// One line on standard error, harmless to a terminal.
void say(const std::string& words);

}  // namespace stalltrace::cli
