// Checked reading of JSON that came from a file: every access names where it went wrong.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "penstock/base/error.h"

namespace penstock::study {

/// The number under `key`; `fallback` where it is absent or null. Throws Error for another type.
inline double number_or(const nlohmann::json& object, const char* key, double fallback,
                        const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return fallback;
  PENSTOCK_CHECK(it->is_number(), where, ": '", key, "' is not a number");
  return it->get<double>();
}

/// The number under `key`. Throws Error where it is absent or of another type.
inline double required_number(const nlohmann::json& object, const char* key,
                              const std::string& where) {
  const auto it = object.find(key);
  PENSTOCK_CHECK(it != object.end() && it->is_number(), where, ": the number '", key,
                 "' is missing");
  return it->get<double>();
}

/// The string under `key`; `fallback` where it is absent or null. Throws Error for another type.
inline std::string string_or(const nlohmann::json& object, const char* key,
                             const std::string& fallback, const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return fallback;
  PENSTOCK_CHECK(it->is_string(), where, ": '", key, "' is not a string");
  return it->get<std::string>();
}

/// The strings under `key`; none where it is absent or null. Throws Error for another type.
inline std::vector<std::string> strings_at(const nlohmann::json& object, const char* key,
                                           const std::string& where) {
  std::vector<std::string> out;
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return out;
  PENSTOCK_CHECK(it->is_array(), where, ": '", key, "' is not a list");
  for (const auto& item : *it) {
    PENSTOCK_CHECK(item.is_string(), where, ": '", key, "' has what is no text");
    out.push_back(item.get<std::string>());
  }
  return out;
}

/// The array's numbers. Throws Error for anything else.
inline std::vector<double> numbers(const nlohmann::json& array, const std::string& where) {
  PENSTOCK_CHECK(array.is_array(), where, ": expected an array of numbers");
  std::vector<double> out;
  for (const auto& item : array) {
    PENSTOCK_CHECK(item.is_number(), where, ": expected an array of numbers");
    out.push_back(item.get<double>());
  }
  return out;
}

}  // namespace penstock::study
