// Reading the keys of a JSON object from outside: each once, of the type and within the range that
// it must have, and no others.
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

/// The JSON of a body, an object whose values lie at most `depth` deep. Throws RequestError.
nlohmann::json parse_object(std::string_view body, int depth);

class ObjectReader {
 public:
  /// @param name  of the object in errors, "" for the request itself. It outlives the reader.
  explicit ObjectReader(const nlohmann::json& object, std::string name = {});

  /// The value of that key; null where it is absent or null.
  const nlohmann::json* find(const std::string& key);
  std::optional<bool> boolean(const std::string& key);
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t least,
                                      std::int64_t most);
  std::optional<double> number(const std::string& key, double least, double most);
  std::optional<std::string> text(const std::string& key);
  /// May be there, and does nothing.
  void ignore(std::initializer_list<const char*> keys);
  /// Throws RequestError for a key that nobody asked for.
  void finish() const;
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;

 private:
  const nlohmann::json& object_;
  std::string name_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace penstock::serve
