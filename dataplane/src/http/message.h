// HTTP/1.1 messages as values: header fields and the heads of requests and responses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::dataplane {

// ASCII only; header names and the tokens compared here have no other letters.
bool iequals(std::string_view a, std::string_view b);

// Header or trailer fields in their order, names as sent. One buffer holds the text of all.
class Fields {
 public:
  struct Field {
    std::string_view name, value;
  };

  void add(std::string_view name, std::string_view value);

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  // Views are good until the next change of this value.
  Field operator[](std::size_t i) const;

  // Of the first field with this name, whatever its case.
  std::optional<std::string_view> find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  // Whether a comma-separated list in any field of this name holds the token, whatever its case.
  bool has_token(std::string_view name, std::string_view token) const;

 private:
  struct Entry {
    std::uint32_t begin, name_size, value_size;
  };
  std::string text_;
  std::vector<Entry> entries_;
};

// Calls `each` with every element of a comma-separated list, without its blanks; empty ones are
// skipped.
template <typename Each>
void for_each_token(std::string_view list, Each each) {
  constexpr std::string_view kBlank = " \t";
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    std::string_view token = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    const std::size_t first = token.find_first_not_of(kBlank);
    if (first == std::string_view::npos) continue;
    token = token.substr(first, token.find_last_not_of(kBlank) - first + 1);
    each(token);
  }
}

// How the end of a message's body is told.
enum class Framing : std::uint8_t {
  kNone,        // there is no body
  kLength,      // Content-Length, more than 0
  kChunked,     // Transfer-Encoding: chunked
  kUntilClose,  // responses of upstreams only: the end of the connection
};

struct MessageHead {
  int minor = 1;  // of HTTP/1.x: 0 or 1
  Fields fields;
  Framing framing = Framing::kNone;
  // As stated; also where there is no body (HEAD, 304) and for 0.
  std::optional<std::uint64_t> content_length;
  bool keep_alive = true;  // the sender would keep the connection
};

struct RequestHead : MessageHead {
  std::string method;
  // Origin form ("/path?query") or "*". An absolute target was taken apart, its authority having
  // been the same as Host; that of CONNECT is as sent.
  std::string target;
  std::string authority;  // Host as sent
  std::string host;       // folded, without port: what routes are looked up by
  bool upgrade = false;   // wants another protocol: Upgrade, and Connection names it
};

struct ResponseHead : MessageHead {
  int status = 0;
  std::string reason;

  bool informational() const { return status / 100 == 1; }
};

}  // namespace fairlead::dataplane
