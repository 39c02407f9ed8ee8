// Writes the body of a message whose head was written, in the framing that the head states.
#pragma once

#include <string_view>
#include <vector>

#include "fairlead/link/types.h"
#include "http/message.h"

namespace fairlead::dataplane {

// The bytes of `part`, a view into `whole`, without a copy.
link::Slice slice_of(const link::Slice& whole, link::Bytes part);

// Each call appends slices to `out`; the bytes of a body are shared, not copied. kUntilClose writes
// them bare. Every part of a body is written at once, as a chunk of its own where there are chunks.
class BodyWriter {
 public:
  explicit BodyWriter(Framing framing = Framing::kNone) : framing_(framing) {}

  void body(link::Slice bytes, std::vector<link::Slice>& out) const;
  // The end of the body. Trailers are written where there are chunks and dropped elsewhere, and so
  // are those that a trailer may not be: framing, routing and authentication fields.
  void end(const Fields& trailers, std::vector<link::Slice>& out) const;

 private:
  Framing framing_;
};

}  // namespace fairlead::dataplane
