#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "userspace/base/error.h"
#include "userspace/base/version.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/input.h"
#include "userspace/cli/output.h"
#include "userspace/dump/explain.h"
#include "userspace/dump/parse.h"
#include "userspace/report/explain_json.h"
#include "userspace/report/explain_text.h"

namespace stalltrace::cli {
namespace {

struct ExplainWords {
  std::string file;
  OutputWords output;
};

std::string_view compressed_with(std::string_view text) {
  if (text.starts_with("\x1f\x8b")) return "gzip";
  if (text.starts_with("\xFD\x37zXZ")) return "xz";
  if (text.starts_with("\x28\xb5\x2f\xfd")) return "zstd";
  if (text.starts_with("BZh")) return "bzip2";
  return {};
}

// Logs may hold a run of zero bytes where a crash cut them off; a binary is full of controls.
bool is_binary(std::string_view text) {
  size_t odd = 0;
  size_t looked_at = 0;
  for (char c : text.substr(0, 65536)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte == 0) continue;
    ++looked_at;
    if (byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r' && byte != 0x1b) ++odd;
  }
  return looked_at == 0 || odd * 20 > looked_at;
}

bool is_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

void check_text(const std::string& text, const std::string& name) {
  if (is_utf16(text)) {
    throw usage_error("{} is UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)", name);
  }
  if (std::string_view tool = compressed_with(text); !tool.empty()) {
    throw usage_error("{} is compressed with {}: unpack it first", name, tool);
  }
  if (is_binary(text)) {
    throw usage_error("{} is no text (a crash dump? give the output of crash's bt)", name);
  }
}

void explain(const ExplainWords& words) {
  check_outputs(words.output);
  bool from_input = words.file.empty() || words.file == "-";
  if (words.file.empty() && isatty(STDIN_FILENO) != 0) {
    throw usage_error("explain: give a file with the stacks, or pipe them in (see --help)");
  }
  const std::string name = from_input ? "standard input" : words.file;
  const std::string text = dump::plain_text(from_input ? read_all(STDIN_FILENO, name, check_text)
                                                       : read_file(words.file, check_text));
  if (text.empty()) throw usage_error("{} is empty", name);
  const dump::Dump dump = dump::parse(text);
  if (dump.tasks.empty()) {
    throw usage_error(
        "{} holds no kernel stack (hung-task reports, sysrq-w or -t, /proc/PID/stack and others "
        "are understood)",
        name);
  }
  const dump::Explanation found = dump::explain(dump);
  if (!words.output.quiet && words.output.json != "-") {
    write_text("-", "standard output", report::explain_text(dump, found, name, terminal_style()));
  }
  if (!words.output.json.empty()) {
    write_text(
        words.output.json, "--json",
        report::explain_json(dump, found, name, STALLTRACE_VERSION, command_line()).dump(1) + "\n");
  }
}

}  // namespace

void add_explain_command(CLI::App& app, int& status) {
  auto words = std::make_shared<ExplainWords>();
  CLI::App* command = app.add_subcommand(
      "explain", "what the stacks in a kernel log or a mail say: who waits for what, and the root");
  command->add_option("FILE", words->file, "the text; - or nothing: standard input");
  command
      ->add_option("--json", words->output.json,
                   "write it as stalltrace.explain/1 JSON (- for standard output)")
      ->type_name("FILE");
  command->add_flag("--quiet", words->output.quiet, "no text");
  command->footer(
      "Needs no root and no BPF, and works on any machine. Understood are hung-task reports,\n"
      "sysrq-w, -t and -l, /proc/PID/stack, crash's bt, perf script, SystemTap, bpftrace, bcc,\n"
      "ftrace, latency_stats and lists of functions, behind the prefixes of syslog, journalctl\n"
      "and dmesg -T, and quoted in mails.\n"
      "Examples:\n"
      "  dmesg | stalltrace explain\n"
      "  echo w > /proc/sysrq-trigger; dmesg | stalltrace explain\n"
      "  journalctl -k -b -1 | stalltrace explain - --json hang.json\n"
      "  grep -s . /proc/[0-9]*/task/*/sta[ct]* | stalltrace explain\n"
      "  stalltrace explain mail.txt");
  command->callback([words, &status] {
    explain(*words);
    status = 0;
  });
}

}  // namespace stalltrace::cli
