// Reading YAML into typed, bounded values with errors a person can act on. Internal to config/.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fairlead::dataplane {

// Files of configuration are small; a larger one is a mistake or an attack.
inline constexpr std::size_t kMaxYamlBytes = 1 << 20;

// What is wrong with a file, in the order of its lines.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}

  // Adds "file:line:column: path: text"; without a path (the whole file) that part is left out.
  void add(const YAML::Mark& mark, std::string_view path, std::string_view text);
  bool empty() const { return found_.empty(); }
  std::vector<std::string> sorted() const;

 private:
  struct Problem {
    YAML::Mark mark;
    std::string text;
  };
  std::string file_;
  std::vector<Problem> found_;
};

// Parses at most one document; a file without any is a null node. nullopt when it cannot: the
// reason is in `problems`.
std::optional<YAML::Node> load_yaml(std::string_view text, Problems& problems);

// A value with its place in the file, for errors.
struct YamlValue {
  YAML::Node node;
  std::string path;
};

// A value as it may be shown in an error: in quotes, control characters as '?', the beginning only,
// since it may be a secret in the wrong place.
std::string in_quotes(std::string_view text);

// The text of a scalar; anything else (list, mapping, empty) is a problem and nullopt.
std::optional<std::string> read_text(const YamlValue& value, Problems& problems);
// The elements of a list; anything else is a problem and an empty result.
std::vector<YamlValue> read_list(const YamlValue& value, Problems& problems);

// One mapping of a file. Each key is asked for once; finish() reports the keys that nobody asked
// for. Getters leave `out` alone when the key is absent or wrong, after reporting it.
class YamlSection {
 public:
  enum class Presence { kOptional, kRequired };

  // A node that is not a mapping is reported at once and then behaves as an empty one whose missing
  // keys are not reported again.
  YamlSection(const YamlValue& value, Problems& problems);

  std::optional<YamlValue> find(std::string_view key, Presence presence);
  bool text(std::string_view key, Presence presence, std::string& out);
  bool number(std::string_view key, Presence presence, std::uint64_t least, std::uint64_t most,
              std::uint64_t& out);
  // `out` becomes the index of the word.
  bool choice(std::string_view key, std::span<const std::string_view> words, std::size_t& out);

  void finish();

  const std::string& path() const { return path_; }
  YAML::Mark mark() const { return mark_; }
  std::string path_of(std::string_view key) const;

 private:
  struct Entry {
    std::string key;
    YAML::Mark mark;
    YAML::Node value;
  };

  std::string path_;
  YAML::Mark mark_;
  Problems& problems_;
  bool usable_ = false;
  std::vector<Entry> entries_;
  std::vector<std::string> asked_;
};

}  // namespace fairlead::dataplane
