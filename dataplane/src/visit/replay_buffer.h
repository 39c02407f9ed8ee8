// What one end of a visit has sent and the other end does not have yet.
#pragma once

#include <cstdint>
#include <vector>

#include "fairlead/link/types.h"
#include "visit/replay_budget.h"

namespace fairlead::dataplane {

// Keeps every byte from append() until acknowledge() covers it, so that it can be sent again from
// any offset the other end may name. Offsets are absolute within the visit and start at 0; the end
// of the half (FIN) occupies one offset. Bytes are shared with the link's queue, not copied, except
// that runs of tiny writes are merged so that bookkeeping never outweighs them.
//
// Invariants: acknowledged() <= end(); held() is the size of all slices kept and never exceeds what
// the lease granted; a slice is kept, and charged, whole until its last byte is acknowledged.
class ReplayBuffer {
 public:
  explicit ReplayBuffer(ReplayLease lease) : lease_(std::move(lease)) {}

  // Bytes that may be appended now, at most `want`; borrows from the budget for them. 0 when at the
  // cap, which only acknowledge() lifts (the floor is never lent out, so an acknowledgement of all
  // that is held always makes room), and after append_fin().
  std::uint64_t room(std::uint64_t want);
  // At most what room() gave; more is a programmer's error.
  void append(link::Slice bytes);
  // Ends the half. At most once, nothing is appended after it.
  void append_fin();
  // The other end has everything before `received`; lower values than before change nothing. False,
  // and nothing changes, when that is more than was appended: the other end broke the rules.
  bool acknowledge(std::uint64_t received);
  // Everything from `offset` on, which must be acknowledged() or later, in order; FIN is not among
  // it. Empty when `offset` is at or past the end.
  std::vector<link::Slice> from(std::uint64_t offset) const;
  // Drops all bytes and returns the lease. Only the offsets remain readable.
  void clear();

  std::uint64_t end() const { return end_ + (fin_ ? 1 : 0); }  // the next offset, FIN counted
  std::uint64_t bytes() const { return end_; }                 // appended ever, FIN not counted
  std::uint64_t acknowledged() const { return acknowledged_; }
  std::uint64_t held() const { return held_; }
  bool has_fin() const { return fin_; }
  // FIN was appended and it and every byte before it were acknowledged.
  bool complete() const { return fin_ && acknowledged_ == end_ + 1; }

 private:
  ReplayLease lease_;
  std::vector<link::Slice> slices_;
  std::size_t head_ = 0;     // slices_ before it are spent
  std::uint64_t first_ = 0;  // offset of slices_[head_]'s first byte
  std::uint64_t end_ = 0;    // offset after the last byte
  std::uint64_t acknowledged_ = 0;
  std::uint64_t held_ = 0;
  bool fin_ = false;
};

}  // namespace fairlead::dataplane
