#include "http/message.h"

#include <algorithm>

namespace fairlead::dataplane {
namespace {

char fold(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

bool iequals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return fold(x) == fold(y); });
}

void Fields::add(std::string_view name, std::string_view value) {
  entries_.push_back({static_cast<std::uint32_t>(text_.size()),
                      static_cast<std::uint32_t>(name.size()),
                      static_cast<std::uint32_t>(value.size())});
  text_.append(name).append(value);
}

Fields::Field Fields::operator[](std::size_t i) const {
  const Entry& entry = entries_[i];
  const std::string_view text = text_;
  return {text.substr(entry.begin, entry.name_size),
          text.substr(entry.begin + entry.name_size, entry.value_size)};
}

std::optional<std::string_view> Fields::find(std::string_view name) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const Field field = (*this)[i];
    if (iequals(field.name, name)) return field.value;
  }
  return std::nullopt;
}

std::size_t Fields::count(std::string_view name) const {
  std::size_t found = 0;
  for (std::size_t i = 0; i < size(); ++i) found += iequals((*this)[i].name, name) ? 1 : 0;
  return found;
}

bool Fields::has_token(std::string_view name, std::string_view token) const {
  bool found = false;
  for (std::size_t i = 0; i < size(); ++i) {
    const Field field = (*this)[i];
    if (!iequals(field.name, name)) continue;
    for_each_token(field.value, [&](std::string_view each) { found |= iequals(each, token); });
  }
  return found;
}

}  // namespace fairlead::dataplane
