#include "workloads/disk/service_model.h"

#include <algorithm>
#include <cmath>

namespace stalltrace::disk {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

uint64_t at_rate_ns(uint64_t bytes, uint64_t bytes_per_s) {
  if (bytes_per_s == 0) return 0;
  return static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_s));
}

uint64_t draw_ns(const OpCost& cost, Random& luck) {
  return cost.from_ns + luck.below(cost.to_ns - cost.from_ns + 1);
}

uint64_t total_bytes(const std::vector<Extent>& extents) {
  uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += extent.bytes;
  return bytes;
}

}  // namespace

uint64_t Head::seek_ns(uint64_t from, uint64_t to) const {
  const uint64_t distance = from < to ? to - from : from - to;
  if (distance < mechanics_.bytes_per_track) return 0;
  const double share =
      std::min(1.0, static_cast<double>(distance) / static_cast<double>(mechanics_.bytes_of_disk));
  const auto range = static_cast<double>(mechanics_.seek_max_ns - mechanics_.seek_min_ns);
  return mechanics_.seek_min_ns + static_cast<uint64_t>(range * std::sqrt(share));
}

uint64_t Head::transfer_ns(uint64_t bytes) const {
  return static_cast<uint64_t>(static_cast<double>(bytes) *
                               static_cast<double>(mechanics_.rotation_ns) /
                               static_cast<double>(mechanics_.bytes_per_track));
}

uint64_t Head::transfer(uint64_t now_ns, const Extent& extent) {
  uint64_t begin_ns = now_ns;
  // Right behind the transfer before, the platter need not come round again.
  if (extent.offset != position_ || now_ns != ready_ns_) {
    const uint64_t there_ns = now_ns + seek_ns(position_, extent.offset);
    const uint64_t angle_ns = transfer_ns(extent.offset % mechanics_.bytes_per_track);
    const uint64_t passed_ns = there_ns % mechanics_.rotation_ns;
    begin_ns = there_ns + (angle_ns + mechanics_.rotation_ns - passed_ns) % mechanics_.rotation_ns;
  }
  position_ = extent.offset + extent.bytes;
  ready_ns_ = begin_ns + transfer_ns(extent.bytes);
  reading_ahead_ = false;
  return ready_ns_;
}

uint64_t Head::read(uint64_t now_ns, const Extent& extent) {
  const bool ahead = reading_ahead_ && extent.offset >= position_ &&
                     extent.offset + extent.bytes <= position_ + mechanics_.read_ahead_bytes;
  if (ahead) {
    ready_ns_ += transfer_ns(extent.offset + extent.bytes - position_);
    position_ = extent.offset + extent.bytes;
    // It stops where its buffer is full, and then goes on from there.
    const uint64_t lead_ns = transfer_ns(mechanics_.read_ahead_bytes);
    if (ready_ns_ + lead_ns < now_ns) ready_ns_ = now_ns - lead_ns;
  } else {
    transfer(now_ns, extent);
    reading_ahead_ = true;
  }
  return std::max(now_ns, ready_ns_);
}

uint64_t Limiter::admit(uint64_t now_ns, uint64_t bytes) {
  const uint64_t requests =
      std::max<uint64_t>(1, (bytes + limit_.bytes_per_request - 1) / limit_.bytes_per_request);
  const uint64_t price_ns =
      std::max(requests * kNsPerSecond / limit_.per_s, at_rate_ns(bytes, limit_.bytes_per_s));
  const uint64_t credit_ns = limit_.burst * kNsPerSecond / limit_.per_s;
  const uint64_t begin_ns =
      paid_until_ns_ > now_ns + credit_ns ? paid_until_ns_ - credit_ns : now_ns;
  paid_until_ns_ = std::max(paid_until_ns_, now_ns) + price_ns;
  return begin_ns;
}

ServiceModel::ServiceModel(const Profile& profile, uint64_t seed)
    : profile_(profile),
      read_luck_(seed ^ (0x72ULL << 56)),
      write_luck_(seed ^ (0x77ULL << 56)),
      flush_luck_(seed ^ (0x66ULL << 56)),
      pause_luck_(seed ^ (0x70ULL << 56)) {
  if (profile.mechanics) head_.emplace(*profile.mechanics);
  if (profile.limit) limiter_.emplace(*profile.limit);
}

uint64_t ServiceModel::read_end_ns(uint64_t begin_ns, const Extent& extent) {
  const uint64_t end_ns = begin_ns + draw_ns(profile_.read, read_luck_);
  if (profile_.read.fixed) return end_ns;
  if (head_) return head_->read(end_ns, extent);
  return end_ns + at_rate_ns(extent.bytes, profile_.read.bytes_per_s);
}

uint64_t ServiceModel::write_end_ns(uint64_t begin_ns, const Extent& extent,
                                    const std::vector<Extent>& drained) {
  uint64_t end_ns = begin_ns + draw_ns(profile_.write, write_luck_);
  if (profile_.write.fixed) return end_ns;
  if (head_ && profile_.cache == Cache::kOff) return head_->transfer(end_ns, extent);
  end_ns += at_rate_ns(extent.bytes, profile_.write.bytes_per_s);
  for (const Extent& out : drained) {
    end_ns = head_ ? head_->transfer(end_ns, out)
                   : end_ns + at_rate_ns(out.bytes, profile_.flush.bytes_per_s);
  }
  return end_ns;
}

uint64_t ServiceModel::flush_end_ns(uint64_t begin_ns, const std::vector<Extent>& drained) {
  const bool pause = profile_.pause_one_in > 0 && pause_luck_.below(profile_.pause_one_in) == 0;
  const uint64_t drawn_ns = draw_ns(profile_.flush, flush_luck_);
  if (pause) return begin_ns + profile_.pause_ns;
  uint64_t end_ns = begin_ns + drawn_ns;
  if (profile_.flush.fixed) return end_ns;
  if (!head_) return end_ns + at_rate_ns(total_bytes(drained), profile_.flush.bytes_per_s);
  for (const Extent& out : drained) end_ns = head_->transfer(end_ns, out);
  if (!drained.empty()) end_ns = std::max(end_ns, begin_ns + profile_.mechanics->rotation_ns);
  return end_ns;
}

uint64_t ServiceModel::due_ns(Op op, const Extent& extent, uint64_t arrival_ns,
                              const std::vector<Extent>& drained) {
  if (op == Op::kDiscard) return arrival_ns;
  const std::lock_guard lock(mutex_);
  uint64_t begin_ns = limiter_ ? limiter_->admit(arrival_ns, extent.bytes) : arrival_ns;
  if (profile_.one_at_a_time) begin_ns = std::max(begin_ns, busy_until_ns_);
  uint64_t end_ns = begin_ns;
  switch (op) {
    case Op::kRead:
      end_ns = read_end_ns(begin_ns, extent);
      break;
    case Op::kWrite:
      end_ns = write_end_ns(begin_ns, extent, drained);
      break;
    case Op::kFlush:
      end_ns = flush_end_ns(begin_ns, drained);
      break;
    case Op::kDiscard:
      break;
  }
  busy_until_ns_ = end_ns;
  return end_ns;
}

}  // namespace stalltrace::disk
