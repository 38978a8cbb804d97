#include "userspace/model/stacks.h"

namespace stalltrace::model {

uint32_t StackTable::intern(std::span<const uint64_t> addresses) {
  if (addresses.empty()) return 0;
  auto [entry, is_new] = known_.try_emplace({addresses.begin(), addresses.end()},
                                            static_cast<uint32_t>(by_id_.size() + 1));
  if (is_new) {
    by_id_.push_back(entry);
    named_.emplace_back();
  }
  return entry->second;
}

std::span<const uint64_t> StackTable::addresses(uint32_t id) const {
  if (id == 0) return {};
  return by_id_.at(id - 1)->first;
}

std::span<const std::string_view> StackTable::frames(uint32_t id) const {
  if (id == 0 || resolver_ == nullptr) return {};
  Named& named = named_.at(id - 1);
  if (!named.done) {
    named.frames = resolver_->frames(addresses(id));
    named.done = true;
  }
  return named.frames;
}

}  // namespace stalltrace::model
