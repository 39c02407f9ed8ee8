#include "http/body_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace fairlead::dataplane {
namespace {

// A chunk up to this size is copied into one slice with its framing: cheaper than three slices.
constexpr std::size_t kCopied = 1024;

constexpr std::array<std::string_view, 20> kNoTrailer{
    "Transfer-Encoding", "Content-Length", "Host",        "Connection",       "Keep-Alive",
    "Proxy-Connection",  "Upgrade",        "TE",          "Trailer",          "Expect",
    "Authorization",     "Cookie",         "Set-Cookie",  "Content-Encoding", "Content-Type",
    "Content-Range",     "Location",       "Retry-After", "WWW-Authenticate", "Cache-Control"};

bool may_be_trailer(std::string_view name) {
  return std::none_of(kNoTrailer.begin(), kNoTrailer.end(),
                      [&](std::string_view refused) { return iequals(refused, name); });
}

}  // namespace

link::Slice slice_of(const link::Slice& whole, link::Bytes part) {
  const auto offset = static_cast<std::size_t>(part.data() - whole.bytes().data());
  return whole.from(offset).first(part.size());
}

void BodyWriter::body(link::Slice bytes, std::vector<link::Slice>& out) const {
  if (bytes.empty()) return;
  if (framing_ != Framing::kChunked) {
    out.push_back(std::move(bytes));
    return;
  }
  std::array<char, 18> size{};
  char* end = std::to_chars(size.data(), size.data() + 16, bytes.size(), 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  const std::string_view line(size.data(), static_cast<std::size_t>(end - size.data()));
  if (bytes.size() <= kCopied) {
    std::string chunk(line);
    chunk.append(bytes.text()).append("\r\n");
    out.push_back(link::Slice::copy_of(chunk));
    return;
  }
  static const link::Slice kCrlf = link::Slice::copy_of("\r\n");
  out.push_back(link::Slice::copy_of(line));
  out.push_back(std::move(bytes));
  out.push_back(kCrlf);
}

void BodyWriter::end(const Fields& trailers, std::vector<link::Slice>& out) const {
  if (framing_ != Framing::kChunked) return;
  std::string text = "0\r\n";
  for (std::size_t i = 0; i < trailers.size(); ++i) {
    const Fields::Field field = trailers[i];
    if (!may_be_trailer(field.name)) continue;
    text.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  out.push_back(link::Slice::copy_of(text.append("\r\n")));
}

}  // namespace fairlead::dataplane
