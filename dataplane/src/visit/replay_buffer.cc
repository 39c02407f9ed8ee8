#include "visit/replay_buffer.h"

#include <algorithm>
#include <cassert>

namespace fairlead::dataplane {
namespace {

// Two neighbours that fit this together become one slice, so n bytes are kept in at most
// 2n / kMerged + 2 slices however small the writes were.
constexpr std::size_t kMerged = 1024;

link::Slice merged(const link::Slice& a, const link::Slice& b) {
  std::vector<std::byte> both;
  both.reserve(a.size() + b.size());
  both.insert(both.end(), a.bytes().begin(), a.bytes().end());
  both.insert(both.end(), b.bytes().begin(), b.bytes().end());
  return link::Slice::copy_of(both);
}

}  // namespace

std::uint64_t ReplayBuffer::room(std::uint64_t want) {
  if (fin_) return 0;
  const std::uint64_t granted = lease_.grow(held_ + want);
  return std::min(want, granted - std::min(granted, held_));
}

void ReplayBuffer::append(link::Slice bytes) {
  assert(!fin_);
  if (bytes.empty()) return;
  held_ += bytes.size();
  end_ += bytes.size();
  assert(held_ <= lease_.granted());
  // The first slice is left alone once a part of it is acknowledged: that part would be charged
  // again.
  const bool tail_is_whole =
      slices_.size() > head_ + 1 || (slices_.size() == head_ + 1 && first_ >= acknowledged_);
  if (tail_is_whole && slices_.back().size() + bytes.size() <= kMerged) {
    slices_.back() = merged(slices_.back(), bytes);
  } else {
    slices_.push_back(std::move(bytes));
  }
}

void ReplayBuffer::append_fin() {
  assert(!fin_);
  fin_ = true;
}

bool ReplayBuffer::acknowledge(std::uint64_t received) {
  if (received > end()) return false;
  if (received <= acknowledged_) return true;
  acknowledged_ = received;
  while (head_ < slices_.size() && first_ + slices_[head_].size() <= received) {
    first_ += slices_[head_].size();
    held_ -= slices_[head_].size();
    slices_[head_++] = link::Slice();
  }
  if (head_ == slices_.size()) {
    slices_ = {};
    head_ = 0;
  } else if (head_ >= 64 && head_ * 2 >= slices_.size()) {
    slices_.erase(slices_.begin(), slices_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  lease_.shrink(held_);
  return true;
}

std::vector<link::Slice> ReplayBuffer::from(std::uint64_t offset) const {
  assert(offset >= acknowledged_);
  std::vector<link::Slice> rest;
  std::uint64_t at = first_;
  for (std::size_t i = head_; i < slices_.size(); ++i) {
    const link::Slice& slice = slices_[i];
    const std::uint64_t skip = offset > at ? offset - at : 0;
    at += slice.size();
    if (skip < slice.size()) rest.push_back(slice.from(static_cast<std::size_t>(skip)));
  }
  return rest;
}

void ReplayBuffer::clear() {
  slices_ = {};
  head_ = 0;
  first_ = end_;
  held_ = 0;
  lease_.reset();
}

}  // namespace fairlead::dataplane
