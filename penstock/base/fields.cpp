#include "penstock/base/fields.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/home.h"
#include "penstock/base/joined.h"
#include "penstock/base/number_text.h"

namespace penstock {
namespace {

std::string where(const ConfigNode& node, const std::string& path) {
  const std::string origin = origin_of(node);
  return (origin.empty() ? "" : origin + ": ") + path;
}

[[noreturn]] void wrong_type(const ConfigNode& node, const std::string& path, const char* wanted) {
  fail(where(node, path), ": expected ", wanted, ", found ", node.type_name());
}

std::string choices_text(std::span<const std::string_view> choices) {
  return joined(choices, " | ");
}

std::string range_text(const FieldInfo& info) {
  const bool low = std::isfinite(info.min), high = std::isfinite(info.max);
  std::string out;
  if (low && high)
    out = number_text(info.min) + " to " + number_text(info.max);
  else if (low)
    out = ">= " + number_text(info.min);
  else if (high)
    out = "<= " + number_text(info.max);
  if (!info.unit.empty()) out += (out.empty() ? "" : " ") + std::string(info.unit);
  return out;
}

/// @param value  of type double or std::int64_t
template <class Value>
void check_range(const ConfigNode& node, const std::string& path, Value value,
                 const FieldInfo& info) {
  const auto number = static_cast<double>(value);
  PENSTOCK_CHECK(std::isfinite(number), where(node, path), " = ", value, " is not a finite number");
  if (number >= info.min && number <= info.max) return;
  std::string shown;
  if constexpr (std::is_integral_v<Value>)
    shown = std::to_string(value);
  else
    shown = number_text(value);
  fail(where(node, path), " = ", shown, " is out of range; it must be ", range_text(info));
}

/// The number of edits between two words (optimal string alignment). An edit inserts, deletes or
/// replaces a character, or exchanges two neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

/// The distance of a word from a name: the number of edits, but at most 1 if the name begins with
/// the word ("batch" of "batch_sequences"), and at most 3 if both have the same first part. The
/// second number, the edits, orders equal distances.
std::pair<std::size_t, std::size_t> distance_of(std::string_view word, std::string_view name) {
  const std::size_t edits = edit_distance(word, name);
  const std::string_view part = word.substr(0, word.find('_'));
  std::size_t most = edits;
  if (word.size() >= 3 && name.starts_with(word))
    most = 1;
  else if (part.size() >= 3 && part == name.substr(0, name.find('_')))
    most = 3;
  return {std::min(edits, most), edits};
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  // At most a third of the letters may be wrong. With more it is another word, not a misspelling.
  const std::size_t most = std::max<std::size_t>(1, word.size() / 3);
  std::string best;
  std::pair<std::size_t, std::size_t> best_distance;
  for (const auto& candidate : candidates) {
    const auto distance = distance_of(word, candidate);
    const bool alike = distance.first <= most || distance.first < distance.second;
    if (alike && (best.empty() || distance < best_distance)) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

const ConfigNode* FieldReader::take(std::string_view name) {
  known_.emplace(name);
  const ConfigNode* child = node_.find(std::string(name));
  return child && !child->empty() ? child : nullptr;
}

void FieldReader::rest(std::map<std::string, ConfigNode>& tables, std::string_view) {
  for (const auto& [key, child] : node_.table()) {
    if (known_.contains(key) || !child.is_table()) continue;
    known_.insert(key);
    tables[key] = child;
  }
}

void FieldReader::finish() const {
  for (const auto& [key, child] : node_.table()) {
    if (known_.contains(key)) continue;
    const std::string path = path_.empty() ? key : path_ + "." + key;
    const std::string nearest = nearest_name(key, {known_.begin(), known_.end()});
    std::string advice;
    if (!nearest.empty()) {
      advice = "; did you mean '" + nearest + "'?";
    } else {
      for (const auto& name : known_) advice += (advice.empty() ? "; valid here: " : ", ") + name;
    }
    fail(where(child, path), ": unknown key", advice);
  }
}

void FieldReader::read(const ConfigNode& node, const std::string& path, ConfigNode& value,
                       const FieldInfo&) {
  check_table(node, path);
  value = node;
}

void FieldReader::read(const ConfigNode& node, const std::string& path, bool& value,
                       const FieldInfo& info) {
  if (!info.words[0].empty() && std::holds_alternative<std::string>(node.value())) {
    value = place_of_word(node, path, info.words) == 1;
    return;
  }
  const auto* found = std::get_if<bool>(&node.value());
  if (!found) wrong_type(node, path, "true or false");
  value = *found;
}

void FieldReader::read(const ConfigNode& node, const std::string& path, std::int64_t& value,
                       const FieldInfo& info) {
  const auto* found = std::get_if<std::int64_t>(&node.value());
  if (!found) wrong_type(node, path, "an integer");
  check_range(node, path, *found, info);
  value = *found;
}

void FieldReader::read(const ConfigNode& node, const std::string& path, double& value,
                       const FieldInfo& info) {
  double found = 0;
  if (const auto* number = std::get_if<double>(&node.value()))
    found = *number;
  else if (const auto* integer = std::get_if<std::int64_t>(&node.value()))
    found = static_cast<double>(*integer);
  else
    wrong_type(node, path, "a number");
  check_range(node, path, found, info);
  value = found;
}

void FieldReader::read(const ConfigNode& node, const std::string& path, std::string& value,
                       const FieldInfo& info) {
  const auto* found = std::get_if<std::string>(&node.value());
  if (!found) wrong_type(node, path, "a string");
  if (!info.choices.empty() && std::ranges::find(info.choices, *found) == info.choices.end())
    fail(where(node, path), " = '", *found, "' is not one of: ", choices_text(info.choices));
  value = with_home(*found);  // a text that begins with "~/" is a path
}

std::size_t FieldReader::place_of_word(const ConfigNode& node, const std::string& path,
                                       std::span<const std::string_view> words) {
  std::string word;
  read(node, path, word, {.choices = {words.begin(), words.end()}});
  return static_cast<std::size_t>(std::ranges::find(words, word) - words.begin());
}

void FieldReader::check_table(const ConfigNode& node, const std::string& path) {
  if (!node.is_table()) wrong_type(node, path, "a table");
}

const ConfigNode::Array& FieldReader::items(const ConfigNode& node, const std::string& path) {
  const auto* found = std::get_if<ConfigNode::Array>(&node.value());
  if (!found) wrong_type(node, path, "an array");
  return *found;
}

void FieldDescriber::add(std::string_view name, const ConfigNode& holder, const char* type,
                         const FieldInfo& info, std::span<const std::string_view> words) {
  std::string text = to_toml(holder);  // "v = 1\n", or "" for an absent optional
  text = text.size() > 5 ? text.substr(4, text.size() - 5) : "";
  if (words.empty()) words = info.choices;
  if (words.empty() && !info.words[0].empty()) words = info.words;
  descriptions_.push_back({.path = prefix_ + std::string(name),
                           .type = type,
                           .default_value = text,
                           .help = std::string(info.help),
                           .range = words.empty() ? range_text(info) : choices_text(words),
                           .option = std::string(info.option.empty() ? name : info.option),
                           .coefficient = info.coefficient,
                           .in_place = std::string(info.in_place),
                           .words = {words.begin(), words.end()},
                           .min = info.min,
                           .max = info.max});
}

}  // namespace penstock
