// A document as a tree that remembers where each part stands in its text, from YAML or JSON.
//
// Scalars follow YAML's core schema, which Kubernetes' own tools are close to: a plain `3` is an
// integer, `true` a bool, `~` or nothing a null; what is quoted is a string; `yes` and `0123` are
// strings too, so that a field of another type refuses them instead of guessing.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::op {

inline constexpr std::size_t kMaxDocumentBytes = 1 << 20;
inline constexpr int kMaxNodes = 20000;  // with aliases expanded
inline constexpr int kMaxDepth = 48;

struct Node {
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;
  std::string text;            // of every scalar, as written
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in the order of the text; keys are unique
  int line = 0;                // from 1; 0: not known
  int column = 0;

  const Node* find(std::string_view key) const;  // nullptr when this is no map or has no such key
};

struct Node::Entry {
  std::string key;
  int line = 0;
  int column = 0;
  Node value;
};

struct NodeError {
  std::string message;
  int line = 0;
  int column = 0;
};

// One document. nullopt with `error` when the text is larger than the limits above, does not parse,
// holds several documents, or a map has a key twice or one that is not a scalar.
std::optional<Node> parse_yaml(std::string_view text, NodeError& error);
// Lines and columns are known for a syntax error only.
std::optional<Node> parse_json(std::string_view text, NodeError& error);

nlohmann::json to_json(const Node& node);

// For messages: "a map", "the string \"x\"", "3".
std::string describe(const Node& node);

}  // namespace fairlead::op
