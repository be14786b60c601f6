// Config fields: each config struct lists its fields once, in `visit`. Reading, checking, defaults,
// help and the written config.toml all use this list.
//
//   struct LinearConfig {
//     bool bias = false;
//     template <class V> void visit(V& v) {
//       v("bias", bias, {.help = "add a trained bias to the logits"});
//     }
//   };
//   auto config = read_config<LinearConfig>(node, "model.router.linear");
//
// A field can be an enum, whose values are words. A function lists them in the order of the values,
// from 0:
//
//   enum class Decay { decoupled, coupled };
//   constexpr std::array<std::string_view, 2> words(Decay) { return {"decoupled", "coupled"}; }
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "penstock/base/config_node.h"

namespace penstock {

struct FieldInfo {
  std::string_view help;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::string_view unit = {};
  std::vector<std::string_view> choices = {};
  /// For a bool that may also be given as a word: the words for false and true.
  std::array<std::string_view, 2> words = {};
  /// The name of the option for this field, for commands that have an option for each field,
  /// written as a member's name. "": the key's name. "-": no option.
  std::string_view option = {};
  /// For a bool that shares the option of a number: the word that replaces the number, as in
  /// `--lr-scale match`.
  std::string_view in_place = {};
  /// Whether the field is a weight of the training loss, or a similar rate, for which 0 means none.
  /// It may change when training continues from a model, because neither the tensors nor the
  /// model's outputs depend on it.
  bool coefficient = false;
};

struct FieldProbe {
  template <class T>
  void operator()(std::string_view, T&, const FieldInfo& = {}) {}
  template <class T>
  void rest(T&, std::string_view) {}
};

/// An enum that lists its words.
template <class E>
concept Worded = std::is_enum_v<E> && requires(E value) {
  words(value);
};

/// The word of a value.
template <Worded E>
std::string_view word(E value) {
  return words(value)[static_cast<std::size_t>(value)];
}

/// The value of a word; nullopt for another text.
template <Worded E>
std::optional<E> of_word(std::string_view text) {
  const auto known = words(E());
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i] == text) return static_cast<E>(i);
  return std::nullopt;
}

/// A struct that lists its fields.
template <class C>
concept Configurable = requires(C config, FieldProbe probe) {
  config.visit(probe);
};

/// Fills a struct from a node. It records the known keys, so that an unknown key is an error.
class FieldReader {
 public:
  FieldReader(const ConfigNode& node, std::string path) : node_(node), path_(std::move(path)) {}

  template <class T>
  void operator()(std::string_view name, T& value, const FieldInfo& info = {}) {
    const ConfigNode* child = take(name);
    if (!child) return;
    read(*child, path_.empty() ? std::string(name) : path_ + "." + std::string(name), value, info);
  }
  /// Takes all remaining keys whose values are tables.
  void rest(std::map<std::string, ConfigNode>& tables, std::string_view help);
  /// Throws Error for a key that no field took; the error names the nearest valid key.
  void finish() const;

 private:
  const ConfigNode* take(std::string_view name);
  static void read(const ConfigNode&, const std::string& path, ConfigNode&, const FieldInfo&);
  /// A list of values of any type.
  static void read(const ConfigNode& node, const std::string& path, ConfigNode::Array& value,
                   const FieldInfo&) {
    value = items(node, path);
  }
  static void read(const ConfigNode&, const std::string& path, bool&, const FieldInfo&);
  static void read(const ConfigNode&, const std::string& path, std::int64_t&, const FieldInfo&);
  static void read(const ConfigNode&, const std::string& path, double&, const FieldInfo&);
  static void read(const ConfigNode&, const std::string& path, std::string&, const FieldInfo&);
  template <Worded E>
  static void read(const ConfigNode& node, const std::string& path, E& value, const FieldInfo&) {
    value = static_cast<E>(place_of_word(node, path, words(value)));
  }
  template <class T>
  static void read(const ConfigNode& node, const std::string& path, std::optional<T>& value,
                   const FieldInfo& info) {
    read(node, path, value.emplace(), info);
  }
  template <class T>
  static void read(const ConfigNode& node, const std::string& path, std::vector<T>& value,
                   const FieldInfo& info) {
    value.clear();
    for (const auto& item : items(node, path)) read(item, path, value.emplace_back(), info);
  }
  template <Configurable C>
  static void read(const ConfigNode& node, const std::string& path, C& value, const FieldInfo&) {
    check_table(node, path);
    FieldReader reader(node, path);
    value.visit(reader);
    reader.finish();
  }
  static const ConfigNode::Array& items(const ConfigNode&, const std::string& path);
  static void check_table(const ConfigNode&, const std::string& path);
  static std::size_t place_of_word(const ConfigNode&, const std::string& path,
                                   std::span<const std::string_view> words);

  const ConfigNode& node_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

/// Writes a struct as a node with all fields.
class FieldWriter {
 public:
  template <class T>
  void operator()(std::string_view name, T& value, const FieldInfo& = {}) {
    node_.set(std::string(name), write(value));
  }
  void rest(std::map<std::string, ConfigNode>& tables, std::string_view) {
    for (const auto& [name, node] : tables) node_.set(name, node);
  }
  ConfigNode take() && {
    return node_.empty() ? ConfigNode(ConfigNode::Table{}) : std::move(node_);
  }

 private:
  template <class T>
  static ConfigNode write(T& value) {
    if constexpr (std::is_same_v<T, ConfigNode>) {
      return value;
    } else if constexpr (Configurable<T>) {
      FieldWriter writer;
      value.visit(writer);
      return std::move(writer).take();
    } else if constexpr (Worded<T>) {
      return ConfigNode(ConfigNode::Value(std::string(word(value))));
    } else {
      return ConfigNode(ConfigNode::Value(value));
    }
  }
  template <class T>
  static ConfigNode write(std::optional<T>& value) {
    return value ? write(*value) : ConfigNode();
  }
  template <class T>
  static ConfigNode write(std::vector<T>& values) {
    ConfigNode::Array items;
    for (T item : values) items.push_back(write(item));
    return ConfigNode(std::move(items));
  }
  ConfigNode node_;
};

struct FieldDescription {
  std::string path, type, default_value, help, range, option;
  bool coefficient = false;
  std::string in_place = {};
  std::vector<std::string> words = {};  ///< the allowed values, if they are words
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

/// Lists the fields with type, default, help and range, for --help and docs.
class FieldDescriber {
 public:
  explicit FieldDescriber(std::string prefix = {}) : prefix_(std::move(prefix)) {}

  template <class T>
  void operator()(std::string_view name, T& value, const FieldInfo& info = {}) {
    if constexpr (Configurable<T>) {
      FieldDescriber below(prefix_ + std::string(name) + ".");
      value.visit(below);
      for (auto& description : below.descriptions_) descriptions_.push_back(std::move(description));
    } else {
      FieldWriter writer;
      if constexpr (!std::is_same_v<T, ConfigNode>) writer("v", value);
      add(name, std::move(writer).take(), type_word(value), info, words_of(value));
    }
  }
  void rest(std::map<std::string, ConfigNode>&, std::string_view help) {
    descriptions_.push_back({prefix_ + "<part>", "table", "", std::string(help), "", "-", false});
  }
  const std::vector<FieldDescription>& descriptions() const { return descriptions_; }

 private:
  static const char* type_word(const ConfigNode&) { return "table"; }
  static const char* type_word(const bool&) { return "bool"; }
  static const char* type_word(const std::int64_t&) { return "int"; }
  static const char* type_word(const double&) { return "float"; }
  static const char* type_word(const std::string&) { return "string"; }
  template <Worded E>
  static const char* type_word(const E&) {
    return "string";
  }
  template <class T>
  static const char* type_word(const std::optional<T>&) {
    return type_word(T());
  }
  template <class T>
  static const char* type_word(const std::vector<T>&) {
    return "array";
  }
  template <class T>
  static std::vector<std::string_view> words_of(const T& value) {
    if constexpr (Worded<T>) {
      const auto list = words(value);
      return {list.begin(), list.end()};
    }
    return {};
  }
  template <class T>
  static std::vector<std::string_view> words_of(const std::optional<T>&) {
    return words_of(T());
  }
  template <class T>
  static std::vector<std::string_view> words_of(const std::vector<T>&) {
    return words_of(T());
  }
  void add(std::string_view name, const ConfigNode& holder, const char* type, const FieldInfo&,
           std::span<const std::string_view> words);

  std::string prefix_;
  std::vector<FieldDescription> descriptions_;
};

/// Reads and checks a whole struct. `path` prefixes keys in errors ("" at the root).
template <Configurable C>
C read_config(const ConfigNode& node, const std::string& path = {}) {
  C config;
  FieldReader reader(node, path);
  config.visit(reader);
  reader.finish();
  return config;
}

/// The struct as a node with every field, defaults included.
template <Configurable C>
ConfigNode write_config(C config) {
  FieldWriter writer;
  config.visit(writer);
  return std::move(writer).take();
}

/// The struct's fields with their defaults. `prefix` is put before each key: "variants.VARIANT.".
template <Configurable C>
std::vector<FieldDescription> describe_config(const std::string& prefix = {}) {
  C config;
  FieldDescriber describer(prefix);
  config.visit(describer);
  return describer.descriptions();
}

/// The candidate with the smallest edit distance to `word` (exchanging two neighbours is one edit),
/// or "" if none is near.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace penstock
