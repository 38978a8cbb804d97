#include "userspace/capture/leftovers.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <iterator>

namespace stalltrace::capture {
namespace {

// As bpf/table.bpf.h lays it out.
template <typename Entry>
struct Bucket {
  uint64_t key[wire::WIRE_TABLE_PLACES];
  Entry entry[wire::WIRE_TABLE_PLACES];
};

template <typename Event>
void send(const Event& event, const Capture::Sink& sink) {
  sink({reinterpret_cast<const std::byte*>(&event), sizeof(event)});
}

template <typename Key, typename Value, typename Visit>
void for_each(int map, Visit visit) {
  Key key{}, next{};
  bool first = true;
  Value value{};
  while (bpf_map_get_next_key(map, first ? nullptr : &key, &next) == 0) {
    first = false;
    key = next;
    if (bpf_map_lookup_elem(map, &key, &value) == 0) visit(value);
  }
}

template <typename Entry, typename Visit>
void for_each_in_table(int map, Visit visit) {
  Bucket<Entry> bucket{};
  for (uint32_t i = 0; i < static_cast<uint32_t>(wire::WIRE_TABLE_BUCKETS); ++i) {
    if (bpf_map_lookup_elem(map, &i, &bucket) != 0) continue;
    for (size_t place = 0; place < wire::WIRE_TABLE_PLACES; ++place) {
      if (bucket.key[place] != 0) visit(bucket.key[place], bucket.entry[place]);
    }
  }
}

void send_requests(int map, const LeftoverMaps& maps, const Capture::Sink& sink) {
  for_each_in_table<wire::wire_request_entry>(
      map, [&](uint64_t, const wire::wire_request_entry& entry) {
        uint64_t from = entry.start_ns != 0 ? entry.start_ns : entry.issue_ns;
        if (from > maps.now_ns || maps.now_ns - from < maps.request_floor_ns) return;
        wire::wire_request event{};
        event.header = {wire::WIRE_REQUEST, sizeof(event)};
        event.times = {.disk = entry.disk,
                       .op = entry.op,
                       .sector = entry.sector,
                       .bytes = entry.bytes,
                       .submitter = entry.issuer.tid,
                       .start_ns = entry.start_ns,
                       .issue_ns = entry.issue_ns,
                       .complete_ns = maps.now_ns};
        event.task = entry.issuer;
        event.flags = entry.flags | wire::REQUEST_UNFINISHED;
        send(event, sink);
      });
}

void send_asyncs(const LeftoverMaps& maps, const Capture::Sink& sink) {
  for_each_in_table<wire::wire_async_entry>(
      maps.asyncs, [&](uint64_t key, const wire::wire_async_entry& entry) {
        if (entry.call_ns > maps.now_ns || maps.now_ns - entry.call_ns < maps.threshold_ns) return;
        wire::wire_async event{};
        event.header = {wire::WIRE_ASYNC, sizeof(event)};
        event.task = entry.task;
        event.dev = entry.dev;
        event.flags = entry.flags | wire::ASYNC_UNFINISHED;
        event.ino = entry.ino;
        event.user_id = entry.user_id;
        event.iocb = key;
        event.call_ns = entry.call_ns;
        event.begin_ns = entry.begin_ns;
        event.queued_ns = entry.queued_ns;
        event.issue_ns = entry.issue_ns;
        event.complete_ns = entry.complete_ns;
        event.done_ns = maps.now_ns;
        event.offset = entry.offset;
        event.sector = entry.sector;
        event.bytes = entry.bytes;
        send(event, sink);
      });
}

}  // namespace

bool has_flush_of(int flushes, uint32_t disk) {
  bool found = false;
  for_each<uint64_t, wire::wire_flush>(
      flushes, [&](const wire::wire_flush& flush) { found = found || flush.disk == disk; });
  return found;
}

void send_leftovers(const LeftoverMaps& maps, const Capture::Sink& sink) {
  for_each<uint64_t, wire::wire_commit>(maps.commits, [&](wire::wire_commit commit) {
    commit.header = {wire::WIRE_COMMIT, sizeof(commit)};
    commit.flags |= wire::COMMIT_UNFINISHED;
    commit.end_ns = maps.now_ns;
    send(commit, sink);
  });
  for_each<uint64_t, wire::wire_flush>(maps.flushes, [&](wire::wire_flush flush) {
    flush.header = {wire::WIRE_FLUSH, sizeof(flush)};
    flush.flags |= wire::FLUSH_UNFINISHED;
    flush.complete_ns = maps.now_ns;
    flush.overtaken = 0;
    flush.overtaken_ns = 0;
    send(flush, sink);
  });
  for_each<uint32_t, wire::wire_freeze>(maps.freezes, [&](wire::wire_freeze freeze) {
    freeze.header = {wire::WIRE_FREEZE, sizeof(freeze)};
    freeze.flags |= wire::FREEZE_UNFINISHED;
    freeze.end_ns = maps.now_ns;
    send(freeze, sink);
  });
  send_requests(maps.requests, maps, sink);
  send_requests(maps.mapped_bios, maps, sink);
  send_asyncs(maps, sink);
}

}  // namespace stalltrace::capture
