// JSON of structs that list their fields once, in `visit`. Writing and reading use that list, and
// errors name the place in the file. base/fields.h does the same for config structs.
#pragma once

#include <algorithm>
#include <concepts>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"

namespace penstock::study {

/// Whether a field must be present in JSON. An optional field that is absent or null keeps its
/// default.
enum class Presence {
  optional,
  required,   ///< reading throws Error if it is absent or null
  if_filled,  ///< optional, and not written if it is empty
};

struct JsonProbe {
  template <class T>
  void operator()(const char*, T&, Presence = Presence::optional) {}
};

/// A struct that lists its fields.
template <class C>
concept ListsJson = requires(C object, JsonProbe probe) {
  object.visit(probe);
};

/// A type that is written and read in a form of its own. `read` throws Error naming `where`.
template <class T>
concept HasOwnJson = requires(T value, const nlohmann::json& from, const std::string& where) {
  value.read(from, where);
  { value.written() } -> std::same_as<nlohmann::json>;
};

class JsonReader {
 public:
  /// Errors begin with `where`. Both must outlive the reader.
  JsonReader(const nlohmann::json& object, const std::string& where)
      : object_(object), where_(where) {
    PENSTOCK_CHECK(object.is_object(), where_, ": is not an object");
  }
  template <class T>
  void operator()(const char* name, T& value, Presence presence = Presence::optional) {
    const auto it = object_.find(name);
    if (it != object_.end() && !it->is_null()) return read(*it, value, where_ + ": " + name);
    PENSTOCK_CHECK(presence != Presence::required, where_, ": '", name, "' is missing");
  }

  template <class T>
  static void read(const nlohmann::json& from, T& value, const std::string& where) {
    if constexpr (ListsJson<T>) {
      JsonReader reader(from, where);
      value.visit(reader);
    } else if constexpr (HasOwnJson<T>) {
      value.read(from, where);
    } else if constexpr (Worded<T>) {
      const auto known = words(value);
      const std::string word = from.is_string() ? from.get<std::string>() : std::string();
      const auto found = std::find(known.begin(), known.end(), word);
      PENSTOCK_CHECK(found != known.end(), where, ": is ", from.dump(), ", which is no such word");
      value = static_cast<T>(found - known.begin());
    } else {
      PENSTOCK_CHECK(fits(from, value), where, ": is not a ", kind_of(value));
      value = from.get<T>();
    }
  }
  template <class T>
  static void read(const nlohmann::json& from, std::optional<T>& value, const std::string& where) {
    read(from, value.emplace(), where);
  }
  template <class T>
  static void read(const nlohmann::json& from, std::vector<T>& value, const std::string& where) {
    PENSTOCK_CHECK(from.is_array(), where, ": is not a list");
    value.clear();
    for (const auto& item : from) read(item, value.emplace_back(), where);
  }
  template <class T>
  static void read(const nlohmann::json& from, std::map<std::string, T>& value,
                   const std::string& where) {
    PENSTOCK_CHECK(from.is_object(), where, ": is not an object");
    for (const auto& [name, item] : from.items()) read(item, value[name], where + ": " + name);
  }

 private:
  static bool fits(const nlohmann::json& from, double) { return from.is_number(); }
  static bool fits(const nlohmann::json& from, std::int64_t) { return from.is_number_integer(); }
  static bool fits(const nlohmann::json& from, bool) { return from.is_boolean(); }
  static bool fits(const nlohmann::json& from, const std::string&) { return from.is_string(); }
  static const char* kind_of(double) { return "number"; }
  static const char* kind_of(std::int64_t) { return "whole number"; }
  static const char* kind_of(bool) { return "truth value"; }
  static const char* kind_of(const std::string&) { return "string"; }

  const nlohmann::json& object_;
  const std::string& where_;
};

class JsonWriter {
 public:
  template <class T>
  void operator()(const char* name, T& value, Presence presence = Presence::optional) {
    nlohmann::json written = write(value);
    if (presence != Presence::if_filled || !written.empty()) object_[name] = std::move(written);
  }

  template <class T>
  static nlohmann::json write(T& value) {
    if constexpr (ListsJson<T>) {
      JsonWriter writer;
      value.visit(writer);
      return std::move(writer.object_);
    } else if constexpr (HasOwnJson<T>) {
      return value.written();
    } else if constexpr (Worded<T>) {
      return word(value);
    } else {
      return value;
    }
  }
  template <class T>
  static nlohmann::json write(std::optional<T>& value) {
    return value ? write(*value) : nlohmann::json();
  }
  template <class T>
  static nlohmann::json write(std::vector<T>& value) {
    nlohmann::json out = nlohmann::json::array();
    for (auto&& item : value) out.push_back(write(item));
    return out;
  }
  template <class T>
  static nlohmann::json write(std::map<std::string, T>& value) {
    nlohmann::json out = nlohmann::json::object();
    for (auto& [name, item] : value) out[name] = write(item);
    return out;
  }

 private:
  nlohmann::json object_ = nlohmann::json::object();
};

/// Reads a number, text, struct, or list or map of these. Throws Error naming `where`.
template <class T>
T read_json(const nlohmann::json& from, const std::string& where) {
  T out{};
  JsonReader::read(from, out, where);
  return out;
}
/// The field `name` of an object; `otherwise` if it is absent or null.
template <class T>
T field_of(const nlohmann::json& object, const char* name, const std::string& where,
           T otherwise = {}) {
  JsonReader(object, where)(name, otherwise);
  return otherwise;
}
/// Writes the types that read_json reads.
template <class T>
nlohmann::json write_json(T value) {
  return JsonWriter::write(value);
}

}  // namespace penstock::study
