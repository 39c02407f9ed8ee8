#include "config/yaml_reader.h"

#include <algorithm>
#include <charconv>

namespace fairlead::dataplane {
namespace {

std::string printable(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out;
  for (const char c : text.substr(0, kShown)) {
    out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
  }
  return text.size() > kShown ? out + "..." : out;
}

std::string_view kind_of(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map:
      return "a mapping";
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Scalar:
      return "a single value";
    default:
      return "empty";
  }
}

template <typename Range>
std::string joined(const Range& words) {
  std::string out;
  for (const auto& word : words) {
    if (!out.empty()) out += ", ";
    out += word;
  }
  return out;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  return "\"" + printable(text) + "\"";
}

void Problems::add(const YAML::Mark& mark, std::string_view path, std::string_view text) {
  std::string line = file_ + ":";
  if (!mark.is_null()) {
    line += std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1) + ":";
  }
  line += " ";
  if (!path.empty()) line.append(path).append(": ");
  found_.push_back({mark, line.append(text)});
}

std::vector<std::string> Problems::sorted() const {
  std::vector<Problem> ordered = found_;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Problem& a, const Problem& b) {
    return std::pair(a.mark.line, a.mark.column) < std::pair(b.mark.line, b.mark.column);
  });
  std::vector<std::string> out;
  out.reserve(ordered.size());
  for (Problem& problem : ordered) out.push_back(std::move(problem.text));
  return out;
}

std::optional<YAML::Node> load_yaml(std::string_view text, Problems& problems) {
  if (text.size() > kMaxYamlBytes) {
    problems.add(YAML::Mark(), "", "the file is larger than 1 MiB");
    return std::nullopt;
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.empty()) return YAML::Node();
    if (documents.size() > 1) {
      problems.add(documents[1].Mark(), "", "a second document begins here; allowed is one");
      return std::nullopt;
    }
    return documents[0];
  } catch (const YAML::Exception& error) {
    problems.add(error.mark, "", "not YAML: " + error.msg);
    return std::nullopt;
  }
}

std::optional<std::string> read_text(const YamlValue& value, Problems& problems) {
  if (value.node.IsScalar()) return value.node.Scalar();
  problems.add(value.node.Mark(), value.path,
               "is " + std::string(kind_of(value.node)) + "; allowed is a single value");
  return std::nullopt;
}

std::vector<YamlValue> read_list(const YamlValue& value, Problems& problems) {
  std::vector<YamlValue> out;
  if (!value.node.IsSequence()) {
    problems.add(value.node.Mark(), value.path,
                 "is " + std::string(kind_of(value.node)) + "; allowed is a list");
    return out;
  }
  for (std::size_t i = 0; i < value.node.size(); ++i) {
    out.push_back({value.node[i], value.path + "[" + std::to_string(i) + "]"});
  }
  return out;
}

YamlSection::YamlSection(const YamlValue& value, Problems& problems)
    : path_(value.path), mark_(value.node.Mark()), problems_(problems) {
  if (!value.node.IsMap()) {
    problems_.add(mark_, path_,
                  "is " + std::string(kind_of(value.node)) + "; allowed is a mapping of keys");
    return;
  }
  usable_ = true;
  for (const auto& pair : value.node) {
    if (!pair.first.IsScalar()) {
      problems_.add(pair.first.Mark(), path_, "a key must be a single word");
      continue;
    }
    const std::string& key = pair.first.Scalar();
    const auto same = [&](const Entry& entry) { return entry.key == key; };
    if (const auto first = std::find_if(entries_.begin(), entries_.end(), same);
        first != entries_.end()) {
      problems_.add(pair.first.Mark(), path_of(printable(key)),
                    "is given twice; the first is in line " + std::to_string(first->mark.line + 1));
      continue;
    }
    entries_.push_back({key, pair.first.Mark(), pair.second});
  }
}

std::string YamlSection::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

std::optional<YamlValue> YamlSection::find(std::string_view key, Presence presence) {
  asked_.emplace_back(key);
  for (const Entry& entry : entries_) {
    if (entry.key == key) return YamlValue{entry.value, path_of(key)};
  }
  if (usable_ && presence == Presence::kRequired) {
    problems_.add(mark_, path_of(key), "is missing and has no default");
  }
  return std::nullopt;
}

bool YamlSection::text(std::string_view key, Presence presence, std::string& out) {
  const auto value = find(key, presence);
  if (!value) return false;
  auto text = read_text(*value, problems_);
  if (!text) return false;
  out = std::move(*text);
  return true;
}

bool YamlSection::number(std::string_view key, Presence presence, std::uint64_t least,
                         std::uint64_t most, std::uint64_t& out) {
  const auto value = find(key, presence);
  if (!value) return false;
  const auto text = read_text(*value, problems_);
  if (!text) return false;
  std::uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), parsed);
  const bool whole = error == std::errc() && end == text->data() + text->size() && !text->empty();
  if (!whole || parsed < least || parsed > most) {
    problems_.add(value->node.Mark(), value->path,
                  in_quotes(*text) + (whole ? " is out of bounds" : " is not a number in bounds") +
                      "; allowed is " + std::to_string(least) + " to " + std::to_string(most));
    return false;
  }
  out = parsed;
  return true;
}

bool YamlSection::choice(std::string_view key, std::span<const std::string_view> words,
                         std::size_t& out) {
  const auto value = find(key, Presence::kOptional);
  if (!value) return false;
  const auto text = read_text(*value, problems_);
  if (!text) return false;
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found == words.end()) {
    problems_.add(value->node.Mark(), value->path,
                  in_quotes(*text) + " is not known; allowed are " + joined(words));
    return false;
  }
  out = static_cast<std::size_t>(found - words.begin());
  return true;
}

void YamlSection::finish() {
  for (const Entry& entry : entries_) {
    if (std::find(asked_.begin(), asked_.end(), entry.key) != asked_.end()) continue;
    problems_.add(entry.mark, path_of(printable(entry.key)),
                  "unknown key; allowed are " + joined(asked_));
  }
}

}  // namespace fairlead::dataplane
