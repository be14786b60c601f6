// Reads a JSON object from outside. Each key may appear once, with its type and range; unknown keys
// are refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "penstock/serve/request_error.h"

namespace penstock::serve {

/// Parses a body: a JSON object with at most `depth` levels. Throws RequestError.
nlohmann::json parse_object(std::string_view body, int depth);

class ObjectReader {
 public:
  /// @param name  the object's name in errors, "" for the request itself. It must outlive the
  /// reader.
  explicit ObjectReader(const nlohmann::json& object, std::string name = {});

  /// The key's value; null if it is absent or null.
  const nlohmann::json* find(const std::string& key);
  std::optional<bool> boolean(const std::string& key);
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t least,
                                      std::int64_t most);
  std::optional<double> number(const std::string& key, double least, double most);
  std::optional<std::string> text(const std::string& key);
  /// Allows the key and ignores its value.
  void ignore(std::initializer_list<const char*> keys);
  /// Throws RequestError for a key that was not read.
  void finish() const;
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;

 private:
  const nlohmann::json& object_;
  std::string name_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace penstock::serve
