#include "api/node.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

namespace fairlead::op {
namespace {

bool is_null(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::optional<bool> as_bool(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

// Decimal without a leading zero: anything else that looks like a number is read differently by
// different tools.
std::optional<std::int64_t> as_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_number(std::string_view text) {
  const bool plain = text.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
  if (!plain || text.find_first_of("0123456789") == std::string_view::npos) return false;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

void read_scalar(std::string_view text, bool quoted, Node& out) {
  out.text = text;
  if (quoted) {
    out.kind = Node::Kind::kString;
  } else if (is_null(text)) {
    out.kind = Node::Kind::kNull;
  } else if (const auto boolean = as_bool(text)) {
    out.kind = Node::Kind::kBool;
    out.boolean = *boolean;
  } else if (const auto integer = as_integer(text)) {
    out.kind = Node::Kind::kInteger;
    out.integer = *integer;
  } else {
    out.kind = is_number(text) ? Node::Kind::kNumber : Node::Kind::kString;
  }
}

class YamlConverter {
 public:
  explicit YamlConverter(NodeError& error) : error_(error) {}

  bool convert(const YAML::Node& from, int depth, Node& to) {
    to.line = from.Mark().line + 1;
    to.column = from.Mark().column + 1;
    if (++nodes_ > kMaxNodes) return fail(to.line, to.column, "too many values in one document");
    if (depth > kMaxDepth) return fail(to.line, to.column, "nested too deeply");
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return true;
      case YAML::NodeType::Scalar:
        // "!" is the tag of a quoted scalar, "?" of a plain one.
        read_scalar(from.Scalar(), from.Tag() != "?", to);
        return true;
      case YAML::NodeType::Sequence:
        to.kind = Node::Kind::kList;
        for (const auto& item : from) {
          if (!convert(item, depth + 1, to.items.emplace_back())) return false;
        }
        return true;
      case YAML::NodeType::Map:
        to.kind = Node::Kind::kMap;
        return convert_map(from, depth, to);
    }
    return true;
  }

 private:
  bool convert_map(const YAML::Node& from, int depth, Node& to) {
    std::set<std::string> seen;
    for (const auto& pair : from) {
      const int line = pair.first.Mark().line + 1;
      const int column = pair.first.Mark().column + 1;
      if (!pair.first.IsScalar()) return fail(line, column, "a key must be a plain word");
      Node::Entry& entry = to.entries.emplace_back();
      entry.key = pair.first.Scalar();
      entry.line = line;
      entry.column = column;
      if (!seen.insert(entry.key).second) {
        return fail(line, column, "the key \"" + entry.key + "\" is there twice");
      }
      if (!convert(pair.second, depth + 1, entry.value)) return false;
    }
    return true;
  }

  bool fail(int line, int column, std::string message) {
    error_ = {std::move(message), line, column};
    return false;
  }

  NodeError& error_;
  int nodes_ = 0;
};

void from_json(const nlohmann::json& from, Node& to) {
  if (from.is_object()) {
    to.kind = Node::Kind::kMap;
    for (const auto& [key, value] : from.items()) {
      Node::Entry& entry = to.entries.emplace_back();
      entry.key = key;
      from_json(value, entry.value);
    }
  } else if (from.is_array()) {
    to.kind = Node::Kind::kList;
    for (const auto& item : from) from_json(item, to.items.emplace_back());
  } else if (from.is_string()) {
    read_scalar(from.get_ref<const std::string&>(), true, to);
  } else if (!from.is_null()) {
    read_scalar(from.dump(), false, to);
  }
}

bool too_large(std::string_view text, NodeError& error) {
  if (text.size() <= kMaxDocumentBytes) return false;
  error = {"the document is larger than 1 MiB", 0, 0};
  return true;
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  const auto entry = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& candidate) { return candidate.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

std::optional<Node> parse_yaml(std::string_view text, NodeError& error) {
  if (too_large(text, error)) return std::nullopt;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      error = {"holds several documents, one is allowed", documents[1].Mark().line + 1,
               documents[1].Mark().column + 1};
      return std::nullopt;
    }
    Node root;
    if (documents.empty()) return root;
    if (!YamlConverter(error).convert(documents.front(), 0, root)) return std::nullopt;
    return root;
  } catch (const YAML::Exception& e) {
    error = {e.msg, e.mark.line + 1, e.mark.column + 1};
    return std::nullopt;
  }
}

std::optional<Node> parse_json(std::string_view text, NodeError& error) {
  if (too_large(text, error)) return std::nullopt;
  bool too_deep = false;
  const auto watch_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;  // drops what is deeper, so that the conversion's recursion is bounded
  };
  try {
    const nlohmann::json document = nlohmann::json::parse(text, watch_depth);
    if (too_deep) {
      error = {"nested too deeply", 0, 0};
      return std::nullopt;
    }
    Node root;
    from_json(document, root);
    return root;
  } catch (const nlohmann::json::exception& e) {
    error = {e.what(), 0, 0};
    return std::nullopt;
  }
}

nlohmann::json to_json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return nullptr;
    case Node::Kind::kBool:
      return node.boolean;
    case Node::Kind::kInteger:
      return node.integer;
    case Node::Kind::kNumber:
      return std::strtod(node.text.c_str(), nullptr);
    case Node::Kind::kString:
      return node.text;
    case Node::Kind::kList: {
      nlohmann::json list = nlohmann::json::array();
      for (const Node& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case Node::Kind::kMap: {
      nlohmann::json map = nlohmann::json::object();
      for (const Node::Entry& entry : node.entries) map[entry.key] = to_json(entry.value);
      return map;
    }
  }
  return nullptr;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
    case Node::Kind::kString:
      return "the string \"" + node.text.substr(0, 80) + "\"";
    default:
      return node.text.substr(0, 80);
  }
}

}  // namespace fairlead::op
