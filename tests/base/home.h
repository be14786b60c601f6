// The environment variable HOME in a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace penstock::testing {

/// Sets HOME, or removes it for nullptr. Restores it on destruction.
class Home {
 public:
  explicit Home(const char* value) {
    if (const char* before = std::getenv("HOME")) before_ = before;
    set(value);
  }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  ~Home() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static void set(const char* value) { value ? ::setenv("HOME", value, 1) : ::unsetenv("HOME"); }
  std::optional<std::string> before_;
};

}  // namespace penstock::testing
