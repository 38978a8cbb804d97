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
#include "userspace/base/fd.h"
#include "userspace/report/clean_text.h"
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

Error cannot_write(const std::string& option, const std::string& path) {
  return failed_error("{}: {} cannot be written: {}", option, path, strerror(errno));
}

// A file that is there and no regular one (a pipe, /dev/null) is written to; else a whole file
// replaces the old one, or none does: a full disk leaves no half a report.
struct Target {
  std::filesystem::path file;    // what a symbolic link leads to
  std::filesystem::path beside;  // empty: written in place
};

Target target_of(const std::string& path) {
  std::error_code error;
  Target target{.file = std::filesystem::weakly_canonical(path, error), .beside = {}};
  if (error) target.file = path;
  if (!std::filesystem::exists(target.file, error) ||
      std::filesystem::is_regular_file(target.file, error)) {
    target.beside = target.file.parent_path() /
                    fmt::format(".{}.{}", target.file.filename().string(), getpid());
  }
  return target;
}

int open_beside(const Target& target) {
  mode_t mode = 0600;
  struct stat old {};
  if (stat(target.file.c_str(), &old) == 0) mode = old.st_mode & 0777;
  return open(target.beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
}

// The file may be ours to write where its folder is not (a file mounted into a container).
bool only_in_place(const Target& target) {
  bool closed = errno == EACCES || errno == EPERM || errno == EROFS;
  return closed && access(target.file.c_str(), W_OK) == 0;
}

void write_all(int fd, std::string_view text, const std::string& name) {
  size_t done = 0;
  while (done < text.size()) {
    ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw failed_error("{} cannot be written: {}", name, strerror(errno));
    done += static_cast<size_t>(written);
  }
}

void write_in_place(const std::string& path, const std::string& option, const Pieces& pieces) {
  Fd file(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (file.get() < 0) throw cannot_write(option, path);
  pieces([&](std::string_view piece) { write_all(file.get(), piece, path); });
}

}  // namespace

const CLI::Validator kNamed(
    [](const std::string& name) { return name.empty() ? "a file name is missing" : ""; }, "");

void add_output_options(CLI::App& command, OutputWords& words) {
  command.add_option("--threshold", words.threshold, "a call this long is a stall")
      ->capture_default_str()
      ->type_name("TIME");
  command.add_option("--json", words.json, "write the report as JSON (- for standard output)")
      ->type_name("FILE")
      ->check(kNamed);
  command.add_flag("--quiet", words.quiet, "no text report");
  add_hook_option(command, words.disabled_hooks);
}

void add_hook_option(CLI::App& command, std::vector<std::string>& names) {
  command
      .add_option("--disable-hook", names,
                  "do without a hook, to see what depends on it (names: see doctor)")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

void check_outputs(const OutputWords& words) {
  if (!words.json.empty()) check_writable(words.json, "--json");
}

void check_writable(const std::string& path, const std::string& option) {
  if (path == "-") return;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw usage_error("{}: {} is a directory", option, path);
  }
  Target target = target_of(path);
  if (target.beside.empty()) {
    if (access(path.c_str(), W_OK) == 0) return;
  } else if (Fd probe{open_beside(target)}; probe.get() >= 0) {
    unlink(target.beside.c_str());
    return;
  } else if (only_in_place(target)) {
    return;
  }
  throw usage_error("{}: {} cannot be written: {}", option, path, strerror(errno));
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
  if (!words.json.empty()) {
    write_pieces(words.json, "--json", [&](const auto& put) { report::put_json(report, put); });
  }
}

void write_text(const std::string& path, const std::string& option, const std::string& text) {
  write_pieces(path, option, [&](const auto& put) { put(text); });
}

void write_pieces(const std::string& path, const std::string& option, const Pieces& pieces) {
  if (path == "-") {
    pieces([](std::string_view piece) { write_all(STDOUT_FILENO, piece, "standard output"); });
    return;
  }
  Target target = target_of(path);
  if (target.beside.empty()) return write_in_place(path, option, pieces);
  Fd file(open_beside(target));
  if (file.get() < 0 && only_in_place(target)) return write_in_place(path, option, pieces);
  if (file.get() < 0) throw cannot_write(option, path);
  try {
    pieces([&](std::string_view piece) { write_all(file.get(), piece, path); });
    if (rename(target.beside.c_str(), target.file.c_str()) != 0) throw cannot_write(option, path);
  } catch (...) {
    unlink(target.beside.c_str());
    throw;
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
  // What it quotes (a name, a line of a file) may hold anything.
  fmt::print(stderr, "stalltrace: {}\n", report::printable(words, is_utf8_locale()));
}

}  // namespace stalltrace::cli
