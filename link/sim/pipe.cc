#include "pipe.h"

#include <algorithm>

namespace fairlead::link::sim {

void Pipe::send(Bytes bytes, Instant now) {
  sent_ += bytes.size();
  in_flight_ += bytes.size();
  const auto busy = Duration(bytes.size() * 1'000'000'000 / traits_.bytes_per_second);
  line_free_ = std::max(line_free_, now) + busy;
  chunks_.push_back({line_free_ + traits_.delay, {bytes.begin(), bytes.end()}, 0});
}

std::optional<Instant> Pipe::next_arrival() const {
  if (swallowing_ || chunks_.empty()) return std::nullopt;
  return chunks_.front().at;
}

bool Pipe::arrived(Instant now) const {
  const auto at = next_arrival();
  return at && *at <= now;
}

std::vector<std::byte> Pipe::take(std::uint64_t most, Instant now) {
  std::vector<std::byte> out;
  if (traits_.cut_after) most = std::min(most, *traits_.cut_after - taken_);
  while (out.size() < most && arrived(now)) {
    Chunk& chunk = chunks_.front();
    const std::size_t n =
        std::min<std::size_t>(most - out.size(), chunk.bytes.size() - chunk.spent);
    const auto first = chunk.bytes.begin() + static_cast<std::ptrdiff_t>(chunk.spent);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(n));
    chunk.spent += n;
    if (chunk.spent == chunk.bytes.size()) chunks_.pop_front();
  }
  taken_ += out.size();
  in_flight_ -= out.size();
  return out;
}

}  // namespace fairlead::link::sim
