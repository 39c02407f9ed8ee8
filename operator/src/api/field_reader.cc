#include "api/field_reader.h"

#include <algorithm>

namespace fairlead::op {
namespace {

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// nullopt when the node is a usable string, else what is wrong with it.
std::optional<std::string> refuse_text(const Node& node, std::size_t max) {
  if (node.kind != Node::Kind::kString) {
    const bool scalar = node.kind != Node::Kind::kList && node.kind != Node::Kind::kMap;
    return "must be a string, not " + describe(node) + (scalar ? ": put it in quotes" : "");
  }
  if (node.text.size() > max) {
    return "must be at most " + std::to_string(max) + " characters, not " +
           std::to_string(node.text.size());
  }
  if (has_control_characters(node.text)) return "must not hold control characters";
  return std::nullopt;
}

}  // namespace

FieldReader::FieldReader(const Node* node, std::string path, std::vector<FieldError>& errors)
    : node_(node), path_(std::move(path)), errors_(errors) {
  if (node_ != nullptr && node_->kind == Node::Kind::kNull) node_ = nullptr;
  if (node_ != nullptr && node_->kind != Node::Kind::kMap) {
    fail_here("must be a map, not " + describe(*node_));
    node_ = nullptr;
  }
}

const Node* FieldReader::take(std::string_view key) {
  known_.emplace(key);
  const Node* field = node_ == nullptr ? nullptr : node_->find(key);
  return field == nullptr || field->kind == Node::Kind::kNull ? nullptr : field;
}

void FieldReader::integer(std::string_view key, int low, int high, int& out) {
  const Node* node = take(key);
  if (node == nullptr) return;
  if (node->kind != Node::Kind::kInteger || node->integer < low || node->integer > high) {
    fail(*node, key,
         "must be an integer from " + std::to_string(low) + " to " + std::to_string(high) +
             ", not " + describe(*node));
    return;
  }
  out = static_cast<int>(node->integer);
}

void FieldReader::seconds(std::string_view key, int low, int high, std::chrono::seconds& out) {
  int value = static_cast<int>(out.count());
  integer(key, low, high, value);
  out = std::chrono::seconds(value);
}

void FieldReader::boolean(std::string_view key, bool& out) {
  const Node* node = take(key);
  if (node == nullptr) return;
  if (node->kind != Node::Kind::kBool) {
    fail(*node, key, "must be true or false, not " + describe(*node));
    return;
  }
  out = node->boolean;
}

void FieldReader::text(std::string_view key, std::string& out, std::size_t max) {
  const Node* node = take(key);
  if (node == nullptr) return;
  if (const auto wrong = refuse_text(*node, max)) {
    fail(*node, key, *wrong);
    return;
  }
  out = node->text;
}

void FieldReader::texts(std::string_view key, std::vector<std::string>& out, std::size_t max) {
  const Node* node = take(key);
  if (node == nullptr) return;
  if (node->kind != Node::Kind::kList || node->items.size() > max) {
    fail(*node, key, "must be a list of at most " + std::to_string(max) + " strings");
    return;
  }
  std::vector<std::string> read;
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    if (const auto wrong = refuse_text(node->items[i], 253)) {
      fail(node->items[i], std::string(key) + "[" + std::to_string(i) + "]", *wrong);
      return;
    }
    read.push_back(node->items[i].text);
  }
  out = std::move(read);
}

void FieldReader::text_map(std::string_view key, std::map<std::string, std::string>& out) {
  const Node* node = take(key);
  if (node == nullptr) return;
  if (node->kind != Node::Kind::kMap) {
    fail(*node, key, "must be a map of strings, not " + describe(*node));
    return;
  }
  for (const Node::Entry& entry : node->entries) {
    if (const auto wrong = refuse_text(entry.value, 4096)) {
      fail(entry.value, std::string(key) + "." + entry.key, *wrong);
      continue;
    }
    out[entry.key] = entry.value.text;
  }
}

FieldReader FieldReader::section(std::string_view key) {
  return FieldReader(take(key), path_of(key), errors_);
}

std::string FieldReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void FieldReader::fail(const Node& node, std::string_view key, std::string message) {
  errors_.push_back({path_of(key), std::move(message), node.line, node.column});
}

void FieldReader::fail_here(std::string message) {
  errors_.push_back({path_, std::move(message), node_ == nullptr ? 0 : node_->line,
                     node_ == nullptr ? 0 : node_->column});
}

void FieldReader::finish() {
  if (node_ == nullptr) return;
  std::string allowed;
  for (const std::string& key : known_) allowed += (allowed.empty() ? "" : ", ") + key;
  for (const Node::Entry& entry : node_->entries) {
    if (known_.contains(entry.key)) continue;
    errors_.push_back({path_of(entry.key), "is not a known field; known here are " + allowed,
                       entry.line, entry.column});
  }
}

}  // namespace fairlead::op
