// `stalltrace trace`: the stalls of any program.

#include <fmt/chrono.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/cli/child.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/durations.h"
#include "userspace/cli/flight.h"
#include "userspace/cli/output.h"
#include "userspace/cli/signals.h"
#include "userspace/cli/tracing.h"
#include "userspace/report/text.h"

namespace stalltrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(500);
constexpr uint64_t kLeastFlightNs = 1'000'000'000;

struct TraceWords {
  OutputWords output;
  std::vector<std::string> devices;
  std::string duration;
  Filter filter;
  bool report_only = false;
  std::string flight;
  std::vector<std::string> stop_on;
  uint64_t keep = 1;
  std::vector<std::string> command;
};

std::vector<kernel::Device> chosen_devices(const TraceWords& words) {
  if (words.devices.empty()) return all_devices();
  std::vector<kernel::Device> chosen;
  for (const std::string& name : words.devices) {
    for (kernel::Device& device : devices_for_name(name)) chosen.push_back(std::move(device));
  }
  return chosen;
}

bool is_gone(uint32_t pid) {
  return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

// Explaining is not to take the CPU from those who are traced.
class BehindOthers {
 public:
  BehindOthers() : before_(getpriority(PRIO_PROCESS, 0)) { setpriority(PRIO_PROCESS, 0, 19); }
  ~BehindOthers() { setpriority(PRIO_PROCESS, 0, before_); }
  BehindOthers(const BehindOthers&) = delete;
  BehindOthers& operator=(const BehindOthers&) = delete;

 private:
  const int before_;  // of this thread alone: Linux has it so
};

void tell_stalls(Tracing& tracing, const Standing& standing) {
  uint64_t others = 0;
  report::Report found = tracing.look(standing, others);
  std::string time = fmt::format("{:%H:%M:%S}", fmt::localtime(std::time(nullptr)));
  std::string text = report::live_text(found, others, time, terminal_style());
  if (text.empty()) return;
  clear_progress();
  fmt::print("{}", text);
  std::fflush(stdout);
}

// "r.json" is "r-2.json" the second time.
std::string numbered(const std::string& path, uint64_t number) {
  if (path.empty() || path == "-") return path;
  std::filesystem::path whole(path);
  return (whole.parent_path() /
          fmt::format("{}-{}{}", whole.stem().string(), number, whole.extension().string()))
      .string();
}

// A flight recorder at work: what it has written so far, and whether that is all.
class Recorder {
 public:
  Recorder(Flight& flight, Tracing& tracing, const TraceWords& words)
      : flight_(flight), tracing_(tracing), words_(words) {}

  [[nodiscard]] uint64_t written() const { return written_; }

  // Whether all that was asked for is written.
  bool look(const Standing& standing) {
    tracing_.mark_time();
    std::optional<std::string> event = flight_.due(standing.calls, standing.now_ns);
    if (!event) return false;
    ++written_;
    say(fmt::format("{}: report {} of {}", *event, written_, words_.keep));
    report::Report report = tracing_.flight_report();
    report.command = command_line();
    report.notes.push_back(fmt::format("recorded because {}", *event));
    flight_.written(standing.now_ns);
    OutputWords output = words_.output;
    if (words_.keep > 1) output.json = numbered(output.json, written_);
    write_report(report, output);
    report = {};
    malloc_trim(0);  // for days to come it does not need what the report took
    return written_ == words_.keep;
  }

 private:
  Flight& flight_;
  Tracing& tracing_;
  const TraceWords& words_;
  uint64_t written_ = 0;
};

void wait_for_the_end(StopSignals& signals, Child* child, std::optional<Clock::time_point> until,
                      std::optional<uint32_t> pid,
                      const std::function<bool(const Standing&)>& is_done, Tracing& tracing) {
  const auto begin = Clock::now();
  auto look_at = begin + kLookEvery;
  for (;;) {
    if (is_done && Clock::now() >= look_at) {
      BehindOthers quietly;
      if (is_done(tracing.standing())) return;
      look_at = Clock::now() + kLookEvery;
    }
    if (child != nullptr && child->ended()) return;
    if (pid && is_gone(*pid)) {
      clear_progress();
      say(fmt::format("process {} has ended", *pid));
      return;
    }
    auto next = Clock::now() + std::chrono::milliseconds(200);
    if (until && *until < next) next = *until;
    if (signals.wait_until(next)) return;
    if (until && Clock::now() >= *until) return;
    double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    show_progress(fmt::format("tracing, {:.0f} s (Ctrl-C ends it and prints the report)", elapsed));
  }
}

struct FlightOptions {
  uint64_t ns = 0;  // 0: no flight recorder
  std::vector<StopOn> stop_on;
};

FlightOptions flight_options(const TraceWords& words) {
  FlightOptions options;
  if (words.flight.empty()) {
    if (!words.stop_on.empty()) throw usage_error("--stop-on goes with --flight TIME");
    if (words.keep != 1) throw usage_error("--keep goes with --flight TIME");
    return options;
  }
  options.ns = parse_duration_ns(words.flight, "--flight");
  if (options.ns < kLeastFlightNs) {
    throw usage_error("--flight {}: at least {} are kept", words.flight,
                      format_time(kLeastFlightNs));
  }
  if (words.stop_on.empty()) {
    throw usage_error("--flight needs to know what for: --stop-on 'fsync > 1s', say");
  }
  uint64_t threshold_ns = parse_time_ns(words.output.threshold, "--threshold");
  for (const std::string& text : words.stop_on) {
    options.stop_on.push_back(parse_stop_on(text));
    if (options.stop_on.back().over_ns < threshold_ns) {
      throw usage_error("--stop-on '{}': calls under --threshold {} are not seen one by one", text,
                        words.output.threshold);
    }
  }
  if (words.keep > 1 && words.output.json == "-") {
    throw usage_error("--keep {} with --json -: standard output takes one report", words.keep);
  }
  if (words.output.quiet && words.output.json.empty()) {
    throw usage_error("--flight with --quiet writes nothing: add --json FILE");
  }
  return options;
}

int trace(const TraceWords& words) {
  check_outputs(words.output);
  std::optional<std::chrono::nanoseconds> duration;
  if (!words.duration.empty()) {
    duration = std::chrono::nanoseconds(parse_duration_ns(words.duration, "-d"));
    if (duration->count() == 0) {
      throw usage_error("-d 0 traces nothing: leave it out to trace until Ctrl-C");
    }
  }
  if (words.command.empty() && command_line().back() == "--") {
    throw usage_error("after -- comes a program to run");
  }
  const FlightOptions flight_words = flight_options(words);
  const bool live =
      !words.report_only && flight_words.ns == 0 && !words.output.quiet && words.output.json != "-";
  Flight flight(flight_words.stop_on, flight_words.ns / 2);
  TracingOptions options{
      .devices = chosen_devices(words),
      .threshold_ns = parse_time_ns(words.output.threshold, "--threshold"),
      .disabled_hooks = words.output.disabled_hooks,
      .filter = words.filter,
      .live = live,
      .flight_ns = flight_words.ns,
      .on_stall = [&](const wire::wire_call& call) { flight.ended(call, monotonic_ns()); }};

  StopSignals signals;
  std::unique_ptr<Child> child;
  if (!words.command.empty()) {
    child = std::make_unique<Child>(words.command, signals, words.output.json == "-");
  }
  Tracing tracing(std::move(options));
  tracing.open_window();
  if (child) child->start();
  std::optional<Clock::time_point> until;
  if (duration) until = Clock::now() + *duration;
  Recorder recorder(flight, tracing, words);
  auto is_done = [&](const Standing& standing) {
    if (live) tell_stalls(tracing, standing);
    return flight_words.ns != 0 && recorder.look(standing);
  };
  bool looks = live || flight_words.ns != 0;
  wait_for_the_end(signals, child.get(), until, words.filter.pid,
                   looks ? is_done : std::function<bool(const Standing&)>(), tracing);
  clear_progress();
  tracing.close_window();
  int status = child ? child->stop() : 0;
  if (flight_words.ns != 0) {
    say(recorder.written() == 0
            ? std::string("nothing met --stop-on: no report")
            : fmt::format("{} of {} reports written", recorder.written(), words.keep));
    return status;
  }

  report::Report report = tracing.make_report();
  report.command = command_line();
  if (words.filter.any()) {
    report.notes.push_back(
        fmt::format("stalls, and what they waited for, are those {} alone; the "
                    "tables of calls, commits and flushes are of all processes",
                    words.filter.text()));
  }
  write_report(report, words.output);
  return status;
}

}  // namespace

void add_trace_command(CLI::App& app, int& status) {
  auto words = std::make_shared<TraceWords>();
  CLI::App* command = app.add_subcommand("trace", "explain the stalls of any program");
  command
      ->add_option("--dev", words->devices,
                   "trace this block device only (/dev/sdb, sdb1, 8:16; repeatable); else all that "
                   "are mounted")
      ->type_name("DEV")
      ->allow_extra_args(false);  // one each: what follows may be CMD
  add_filter_options(*command, words->filter);
  command
      ->add_option("-d,--duration", words->duration,
                   "end after this time, like 20s; CMD is then ended, too")
      ->type_name("TIME");
  add_output_options(*command, words->output);
  command
      ->add_option("--flight", words->flight,
                   "flight recorder: keep the last TIME only, report it when --stop-on is met")
      ->type_name("TIME");
  command
      ->add_option("--stop-on", words->stop_on,
                   "KIND > TIME, like 'io_submit > 1s'; 'stall > 1s' for any kind (repeatable)")
      ->type_name("COND")
      ->allow_extra_args(false);
  command->add_option("--keep", words->keep, "so many reports (FILE-1.json, ...), then end")
      ->check(CLI::Range(uint64_t{1}, uint64_t{10'000}))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--no-live", words->report_only,
                    "only the report at the end, no stalls as they happen");
  command->add_option("command", words->command, "a program to run; tracing ends with it")
      ->type_name("-- CMD ...");
  command->footer(
      "Stalls are told as they happen, and while they last; the report of all follows when CMD has "
      "ended,\nafter -d, or at Ctrl-C. With CMD the exit status is "
      "CMD's,\nand 125 if stalltrace itself failed; what CMD prints goes to standard error where "
      "the\nJSON goes to standard output.\n\n"
      "Examples:\n"
      "  stalltrace trace -d 20s\n"
      "  stalltrace trace --dev /dev/sdb --threshold 50ms --json r.json\n"
      "  stalltrace trace --dev sdb -- fio job.fio\n"
      "  stalltrace trace --flight 60s --stop-on 'io_submit > 1s' --json r.json --keep 3");
  command->callback([words, &status] {
    try {
      status = trace(*words);
    } catch (const Error& error) {
      if (words->command.empty()) throw;
      throw Error(ExitCode::kTracerFailed, error.what());
    }
  });
}

}  // namespace stalltrace::cli
