// Reads the fields of one map into a struct and collects what is wrong with them.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/node.h"
#include "api/relay_cluster.h"

namespace fairlead::op {

// Each reader leaves its `out` alone when the field is absent or null (the struct's own initialiser
// is the default, the one place where it is named) and when the field is wrong (then an error was
// added). finish() reports the fields that nobody asked for.
class FieldReader {
 public:
  // `node` nullptr: an absent map, every field is absent.
  FieldReader(const Node* node, std::string path, std::vector<FieldError>& errors);

  // The field's value; nullptr when absent or null. Marks it as known.
  const Node* take(std::string_view key);
  // Marks a field as known without reading it.
  void ignore(std::string_view key) { known_.emplace(key); }

  void integer(std::string_view key, int low, int high, int& out);
  void seconds(std::string_view key, int low, int high, std::chrono::seconds& out);
  void boolean(std::string_view key, bool& out);
  // A string of at most `max` characters without control characters.
  void text(std::string_view key, std::string& out, std::size_t max = 253);
  // A list of strings of at most `max` items.
  void texts(std::string_view key, std::vector<std::string>& out, std::size_t max);
  void text_map(std::string_view key, std::map<std::string, std::string>& out);

  template <typename Enum>
  struct Name {
    std::string_view name;
    Enum value;
  };
  template <typename Enum, std::size_t kCount>
  void choice(std::string_view key, const Name<Enum> (&names)[kCount], Enum& out) {
    const Node* node = take(key);
    if (node == nullptr) return;
    std::string allowed;
    for (const Name<Enum>& name : names) {
      if (node->kind == Node::Kind::kString && node->text == name.name) {
        out = name.value;
        return;
      }
      allowed += (allowed.empty() ? "" : " or ") + std::string(name.name);
    }
    fail(*node, key, "must be " + allowed + ", not " + describe(*node));
  }

  // A reader of the map in field `key`.
  FieldReader section(std::string_view key);
  // For a FieldError about a field of this map: "spec.rollout" + "." + key.
  std::string path_of(std::string_view key) const;
  void fail(const Node& node, std::string_view key, std::string message);
  // About the map itself.
  void fail_here(std::string message);
  // An error for each field that no reader took.
  void finish();

 private:
  const Node* node_;
  std::string path_;
  std::vector<FieldError>& errors_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace fairlead::op
