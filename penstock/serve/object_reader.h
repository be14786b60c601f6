// Reads the keys of an untrusted JSON object. Repeated and unknown keys, wrong types and values out
// of range are errors.
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

/// Parses a body: a JSON object with at most `depth` levels, in which no object has a key twice.
/// Throws RequestError for anything else.
nlohmann::json parse_object(std::string_view body, int depth);

class ObjectReader {
 public:
  /// @param object  must outlive the reader
  /// @param name  the object's name in errors; "" for the request itself
  explicit ObjectReader(const nlohmann::json& object, std::string name = {});

  /// The value of that key; a null pointer if the key is absent or its value is null.
  const nlohmann::json* find(const std::string& key);
  std::optional<bool> boolean(const std::string& key);
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t least,
                                      std::int64_t most);
  std::optional<double> number(const std::string& key, double least, double most);
  std::optional<std::string> text(const std::string& key);
  /// Accepts these keys and ignores their values.
  void ignore(std::initializer_list<const char*> keys);
  /// Throws RequestError for a key that no function above has read or ignored.
  void finish() const;
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;

 private:
  const nlohmann::json& object_;
  std::string name_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace penstock::serve
