#include "userspace/cli/signals.h"

#include <ctime>

namespace stalltrace::cli {

StopSignals::StopSignals() {
  sigemptyset(&held_);
  for (int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&held_, signal);
  // nohup's wish: what is ignored would come all the same once it is held back.
  struct sigaction hang_up {};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    sigaddset(&held_, SIGHUP);
  }
  pthread_sigmask(SIG_BLOCK, &held_, &before_);
}

StopSignals::~StopSignals() {
  // A second Ctrl-C while the report was made has had its effect: none.
  timespec none{};
  while (sigtimedwait(&held_, nullptr, &none) > 0) {
  }
  restore();
}

bool StopSignals::wait_until(std::chrono::steady_clock::time_point until) {
  do {
    auto left = until - std::chrono::steady_clock::now();
    auto left_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    if (left_ns < 0) left_ns = 0;
    timespec timeout{.tv_sec = left_ns / 1'000'000'000, .tv_nsec = left_ns % 1'000'000'000};
    int signal = sigtimedwait(&held_, nullptr, &timeout);
    if (signal > 0 && signal != SIGCHLD) stopped_ = true;
    if (signal == SIGCHLD) break;  // the caller looks after its child
  } while (!stopped_ && std::chrono::steady_clock::now() < until);
  return stopped_;
}

}  // namespace stalltrace::cli
