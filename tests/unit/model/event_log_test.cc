#include "userspace/model/event_log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "bpf/wire.h"

namespace stalltrace::model {
namespace {

using Bytes = std::vector<std::byte>;

template <typename Event>
Bytes event_bytes(Event event, wire::wire_kind kind) {
  event.header = {static_cast<uint32_t>(kind), sizeof(Event)};
  Bytes bytes(sizeof(Event));
  std::memcpy(bytes.data(), &event, sizeof(Event));
  return bytes;
}

Bytes handle(uint32_t tid, uint64_t start_ns, uint64_t stop_ns, uint32_t flags = 0) {
  wire::wire_handle event{};
  event.task.tid = tid;
  event.start_ns = start_ns;
  event.stop_ns = stop_ns;
  event.flags = flags;
  return event_bytes(event, wire::WIRE_HANDLE);
}

wire::wire_handle handle_of(std::span<const std::byte> event) {
  wire::wire_handle handle;
  EXPECT_EQ(event.size(), sizeof(handle));
  std::memcpy(&handle, event.data(), sizeof(handle));
  return handle;
}

std::vector<uint64_t> stops_since(const EventLog& log, uint64_t since_ns) {
  std::vector<uint64_t> stops;
  log.each_since(since_ns, [&](std::span<const std::byte> event) {
    stops.push_back(handle_of(event).stop_ns);
  });
  return stops;
}

TEST(EventLog, KeepsAllInOrder) {
  EventLog log(1000, 1 << 20);
  EXPECT_TRUE(stops_since(log, 0).empty());
  for (uint64_t i = 1; i <= 3; ++i) log.add(handle(1, i, i + 1), i + 1);
  EXPECT_EQ(stops_since(log, 0), (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_EQ(log.whole_since_ns(), 0U);
  EXPECT_EQ(log.bytes(), 3 * sizeof(wire::wire_handle));
}

// A thousand handles are some chunks: the oldest go by age, or when they are too many.
TEST(EventLog, DropsWhatIsOld) {
  EventLog by_age(500, size_t{1} << 30);
  EventLog by_size(1'000'000, 600 << 10);
  for (uint64_t i = 0; i < 20'000; ++i) {
    by_age.add(handle(1, i, i), i);
    by_size.add(handle(1, i, i), i);
  }
  for (EventLog* log : {&by_age, &by_size}) {
    std::vector<uint64_t> kept = stops_since(*log, 0);
    ASSERT_FALSE(kept.empty());
    EXPECT_LT(kept.size(), 20'000U);
    EXPECT_EQ(kept.back(), 19'999U);
    EXPECT_EQ(kept.back() - kept.front() + 1, kept.size());  // none is missing in between
    EXPECT_EQ(log->whole_since_ns() + 1, kept.front());
    EXPECT_EQ(log->bytes(), kept.size() * sizeof(wire::wire_handle));
  }
  EXPECT_LE(by_size.bytes(), size_t{600 << 10} + (256 << 10));
  EXPECT_LE(stops_since(by_age, 0).front(), 19'499U);
  // Whole chunks are passed over, and none that has something new.
  EXPECT_LT(stops_since(by_size, 19'990).size(), stops_since(by_size, 0).size());
  EXPECT_LE(stops_since(by_size, 19'990).front(), 19'990U);
}

TEST(EventLog, WhatStoodAndHasEndedIsToldOnce) {
  EventLog log(1000, 1 << 20);
  log.add(handle(1, 10, 30), 30);  // ended after we had looked
  log.add(handle(3, 5, 8), 8);
  Bytes standing;
  for (const Bytes& one :
       {handle(1, 10, 20, wire::HANDLE_UNFINISHED), handle(2, 10, 20, wire::HANDLE_UNFINISHED)}) {
    standing.insert(standing.end(), one.begin(), one.end());
  }
  std::vector<std::pair<uint32_t, uint32_t>> told;
  each_with_standing(log, 0, standing, [&](std::span<const std::byte> event) {
    wire::wire_handle one = handle_of(event);
    told.emplace_back(one.task.tid, one.flags);
  });
  EXPECT_EQ(told, (std::vector<std::pair<uint32_t, uint32_t>>{
                      {1, 0}, {3, 0}, {2, wire::HANDLE_UNFINISHED}}));
}

TEST(EventLog, StopsAtWhatIsNoEvent) {
  Bytes bytes = handle(1, 1, 2);
  Bytes torn = handle(2, 1, 2);
  bytes.insert(bytes.end(), torn.begin(), torn.begin() + 20);
  size_t events = 0;
  each_event(bytes, [&](std::span<const std::byte>) { ++events; });
  EXPECT_EQ(events, 1U);
}

}  // namespace
}  // namespace stalltrace::model
