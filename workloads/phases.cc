#include "workloads/phases.h"

#include <algorithm>

namespace stalltrace::workloads {

void Phases::join(unsigned phase) {
  std::scoped_lock lock(mutex_);
  if (running_.size() <= phase) running_.resize(size_t{phase} + 1);
  ++running_[phase];
}

bool Phases::earlier_are_done(unsigned phase) const {
  return std::all_of(running_.begin(), running_.begin() + phase,
                     [](uint64_t count) { return count == 0; });
}

void Phases::wait(unsigned phase) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return earlier_are_done(phase); });
}

void Phases::leave(unsigned phase) {
  {
    std::scoped_lock lock(mutex_);
    --running_[phase];
  }
  changed_.notify_all();
}

}  // namespace stalltrace::workloads
