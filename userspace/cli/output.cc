#include "userspace/cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "userspace/base/error.h"
#include "userspace/report/json.h"
#include "userspace/report/text.h"

namespace stalltrace::cli {
namespace {

bool progress_shown = false;

size_t terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    long value = std::strtol(columns, nullptr, 10);
    if (value > 0) return static_cast<size_t>(value);
  }
  return 100;
}

bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale(value);
    return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

void write_all(int fd, const std::string& text, const std::string& name) {
  size_t done = 0;
  while (done < text.size()) {
    ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw failed_error("{} cannot be written: {}", name, strerror(errno));
    done += static_cast<size_t>(written);
  }
}

}  // namespace

void add_output_options(CLI::App& command, OutputWords& words) {
  command.add_option("--threshold", words.threshold, "a call this long is a stall")
      ->capture_default_str()
      ->type_name("TIME");
  command.add_option("--json", words.json, "write the report as JSON (- for standard output)")
      ->type_name("FILE");
  command.add_flag("--quiet", words.quiet, "no text report");
  command
      .add_option("--disable-hook", words.disabled_hooks,
                  "do without a hook, to see what depends on it (names: see doctor)")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

void check_outputs(const OutputWords& words) {
  if (words.json.empty() || words.json == "-") return;
  // Only asked, not opened: a run that comes to nothing leaves no empty file behind.
  std::filesystem::path path(words.json);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw usage_error("--json: {} is a directory", words.json);
  }
  bool exists = std::filesystem::exists(path, error);
  std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string asked = exists ? path.string() : folder.string();
  if (access(asked.c_str(), exists ? W_OK : W_OK | X_OK) != 0) {
    throw usage_error("--json: {} cannot be written: {}", words.json, strerror(errno));
  }
}

report::TextStyle terminal_style() {
  return {.width = terminal_width(),
          .color = isatty(STDOUT_FILENO) != 0 && getenv("NO_COLOR") == nullptr,
          .utf8 = is_utf8_locale()};
}

void write_report(const report::Report& report, const OutputWords& words) {
  if (!words.quiet && words.json != "-") {
    write_all(STDOUT_FILENO, report::to_text(report, terminal_style()), "standard output");
  }
  if (!words.json.empty()) write_text(words.json, "--json", report::to_json(report).dump(1) + "\n");
}

void write_text(const std::string& path, const std::string& option, const std::string& text) {
  if (path == "-") {
    write_all(STDOUT_FILENO, text, "standard output");
    return;
  }
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) throw failed_error("{}: {} cannot be written: {}", option, path, strerror(errno));
  write_all(fd, text, path);
  if (close(fd) != 0) {
    throw failed_error("{}: {} cannot be written: {}", option, path, strerror(errno));
  }
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (size_t at = 0; at < all.size();) {
    size_t end = all.find('\0', at);
    if (end == std::string::npos) end = all.size();
    words.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

void show_progress(const std::string& words) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r\x1b[Kstalltrace: {}", words);
  std::fflush(stderr);
  progress_shown = true;
}

void clear_progress() {
  if (!progress_shown) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  progress_shown = false;
}

void say(const std::string& words) {
  clear_progress();
  fmt::print(stderr, "stalltrace: {}\n", words);
}

}  // namespace stalltrace::cli
