#include "workloads/disk/write_cache.h"

#include <algorithm>
#include <cstring>

namespace stalltrace::disk {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPushOutPages = 256;  // neighbours leave together, as in one transfer

void append(std::vector<Extent>& extents, uint64_t page) {
  const uint64_t offset = page * kPageBytes;
  if (!extents.empty() && extents.back().offset + extents.back().bytes == offset) {
    extents.back().bytes += kPageBytes;
  } else {
    extents.push_back({offset, kPageBytes});
  }
}

}  // namespace

WriteCache::WriteCache(Store& store, uint64_t capacity_bytes)
    : store_(store), capacity_pages_(std::max<uint64_t>(1, capacity_bytes / kPageBytes)) {}

std::unique_ptr<WriteCache::Page> WriteCache::copy(uint64_t page) const {
  auto contents = std::make_unique<Page>();
  std::memcpy(contents->data(), store_.at(page * kPageBytes), kPageBytes);
  return contents;
}

// Called before the store changes.
void WriteCache::note(uint64_t page, uint64_t number) {
  Entry& entry = pages_[page];
  ++copies_;
  if (entry.versions.empty()) {
    entry.stable = copy(page);
    entry.birth = ++last_birth_;
    oldest_.emplace_back(page, entry.birth);
  } else {
    entry.versions.back().contents = copy(page);
  }
  entry.versions.push_back({number, nullptr});
}

void WriteCache::forget(uint64_t page) {
  const auto found = pages_.find(page);
  if (found == pages_.end()) return;
  copies_ -= found->second.versions.size();
  pages_.erase(found);
}

uint64_t WriteCache::begin_write(uint64_t offset, const char* data, uint64_t bytes,
                                 std::vector<Extent>& pushed_out) {
  const uint64_t number = ++last_number_;
  in_flight_.insert(number);
  if (bytes > 0) {
    const uint64_t last = (offset + bytes - 1) / kPageBytes;
    for (uint64_t page = offset / kPageBytes; page <= last; ++page) note(page, number);
    store_.write(offset, data, bytes);
  }
  while (copies_ > capacity_pages_) push_out(pushed_out);
  return number;
}

void WriteCache::push_out(std::vector<Extent>& pushed_out) {
  const auto [first, birth] = oldest_.front();
  oldest_.pop_front();
  const auto found = pages_.find(first);
  if (found == pages_.end() || found->second.birth != birth) return;
  for (uint64_t page = first; page < first + kPushOutPages && pages_.count(page) > 0; ++page) {
    forget(page);
    append(pushed_out, page);
  }
}

void WriteCache::discard(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  const uint64_t first_page = (offset + kPageBytes - 1) / kPageBytes;
  const uint64_t end_page = std::max(end / kPageBytes, first_page);
  const std::vector<char> zeros(kPageBytes);
  std::vector<Extent> ignored;
  const auto write_zeros = [&](uint64_t from, uint64_t to) {
    if (from < to) end_write(begin_write(from, zeros.data(), to - from, ignored));
  };
  write_zeros(offset, std::min(first_page * kPageBytes, end));
  if (end_page > first_page) {
    if (end_page - first_page < pages_.size()) {
      for (uint64_t page = first_page; page < end_page; ++page) forget(page);
    } else {
      for (const uint64_t page : sorted_pages()) {
        if (page >= first_page && page < end_page) forget(page);
      }
    }
    store_.discard(first_page * kPageBytes, (end_page - first_page) * kPageBytes);
  }
  write_zeros(std::max(end_page * kPageBytes, std::min(first_page * kPageBytes, end)), end);
}

size_t WriteCache::drained_versions(const Entry& entry, const Flush& flush) {
  for (size_t count = entry.versions.size(); count > 0; --count) {
    const uint64_t number = entry.versions[count - 1].number;
    if (number > flush.last_number || flush.in_flight.count(number) > 0) continue;
    return number > entry.passed_over ? count : 0;
  }
  return 0;
}

uint64_t WriteCache::begin_flush(std::vector<Extent>& to_drain) {
  const Flush& flush =
      flushes_.emplace(++last_flush_, Flush{last_number_, in_flight_}).first->second;
  std::vector<uint64_t> pages;
  for (const auto& [page, entry] : pages_) {
    if (drained_versions(entry, flush) > 0) pages.push_back(page);
  }
  std::sort(pages.begin(), pages.end());
  for (const uint64_t page : pages) append(to_drain, page);
  return last_flush_;
}

void WriteCache::make_stable(Entry& entry, size_t versions) {
  entry.stable = std::move(entry.versions[versions - 1].contents);
  entry.versions.erase(entry.versions.begin(),
                       entry.versions.begin() + static_cast<ptrdiff_t>(versions));
  copies_ -= versions;
}

void WriteCache::end_flush(uint64_t number) {
  const auto flush = flushes_.find(number);
  if (flush == flushes_.end()) return;
  for (auto page = pages_.begin(); page != pages_.end();) {
    Entry& entry = page->second;
    const size_t versions = drained_versions(entry, flush->second);
    if (versions == entry.versions.size()) {
      copies_ -= versions;
      page = pages_.erase(page);
      continue;
    }
    if (versions > 0) make_stable(entry, versions);
    ++page;
  }
  flushes_.erase(flush);
  if (oldest_.size() < 2 * pages_.size() + 1024) return;
  const auto is_old_news = [&](const auto& page_and_birth) {
    const auto found = pages_.find(page_and_birth.first);
    return found == pages_.end() || found->second.birth != page_and_birth.second;
  };
  oldest_.erase(std::remove_if(oldest_.begin(), oldest_.end(), is_old_news), oldest_.end());
}

void WriteCache::lie() {
  const Flush flush{last_number_, in_flight_};
  for (auto& [page, entry] : pages_) {
    const size_t versions = drained_versions(entry, flush);
    if (versions > 0) entry.passed_over = entry.versions[versions - 1].number;
  }
}

void WriteCache::drain() {
  std::vector<Extent> ignored;
  for (auto& [page, entry] : pages_) entry.passed_over = 0;
  end_flush(begin_flush(ignored));
}

bool WriteCache::has_undrained() const {
  return std::any_of(pages_.begin(), pages_.end(), [&](const auto& page) {
    const auto& versions = page.second.versions;
    return std::any_of(versions.begin(), versions.end(),
                       [&](const Version& version) { return is_completed(version); });
  });
}

std::vector<uint64_t> WriteCache::sorted_pages() const {
  std::vector<uint64_t> pages;
  pages.reserve(pages_.size());
  for (const auto& [page, entry] : pages_) pages.push_back(page);
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::vector<WriteCache::Choice> WriteCache::choose(Random& random) const {
  std::vector<Choice> choices;
  bool loses = false;
  size_t may_lose = 0;
  const double likelihood = random.fraction();
  // Not in the order of the hash, so that a seed means the same everywhere.
  for (const uint64_t page : sorted_pages()) {
    const auto& versions = pages_.at(page).versions;
    const bool survives = random.fraction() < likelihood;
    Choice choice{page, survives ? 1 + random.below(versions.size()) : 0, false};
    for (size_t i = 0; i < versions.size(); ++i) {
      if (!is_completed(versions[i])) continue;
      choice.may_lose = true;
      loses = loses || i >= choice.keep;
    }
    may_lose += choice.may_lose ? 1 : 0;
    choices.push_back(choice);
  }
  if (!loses && may_lose > 0) {
    uint64_t skip = random.below(may_lose);
    for (Choice& choice : choices) {
      if (choice.may_lose && skip-- == 0) choice.keep = 0;
    }
  }
  return choices;
}

Survival WriteCache::count(const std::vector<Choice>& choices) const {
  Survival survival;
  std::set<uint64_t> dropped;
  std::set<uint64_t> all;
  for (const Choice& choice : choices) {
    const auto& versions = pages_.at(choice.page).versions;
    bool loses = false;
    for (size_t i = 0; i < versions.size(); ++i) {
      if (!is_completed(versions[i])) continue;
      all.insert(versions[i].number);
      if (i < choice.keep) continue;
      dropped.insert(versions[i].number);
      loses = true;
    }
    if (choice.may_lose) ++(loses ? survival.pages_dropped : survival.pages_kept);
  }
  survival.writes_dropped = dropped.size();
  survival.writes_kept = all.size() - dropped.size();
  return survival;
}

Survival WriteCache::cut(Random& random) {
  const auto choices = choose(random);
  const Survival survival = count(choices);
  for (const auto& [page, keep, may_lose] : choices) {
    const Entry& entry = pages_.at(page);
    const Page* kept = keep == 0 ? entry.stable.get() : entry.versions[keep - 1].contents.get();
    if (kept != nullptr) store_.write(page * kPageBytes, kept->data(), kPageBytes);
  }
  clear();
  return survival;
}

void WriteCache::clear() {
  pages_.clear();
  oldest_.clear();
  flushes_.clear();
  in_flight_.clear();
  copies_ = 0;
}

}  // namespace stalltrace::disk
