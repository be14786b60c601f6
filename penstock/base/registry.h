// A table of named things that describe themselves. Entries are added by static registrars, so the
// library that holds them must be shared (a static link would drop the registrars).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/base/joined.h"

namespace penstock {

/// Maps names to entries, sorted by name. A duplicate name fails an assertion at program start.
template <class Entry>
class Registry {
 public:
  /// @param kind  the word for an entry in errors: "scorer"
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  void add(const std::string& name, Entry entry) {
    PENSTOCK_ASSERT(entries_.emplace(name, std::move(entry)).second, "two ", kind_, "s named ",
                    name);
  }
  bool contains(const std::string& name) const { return entries_.contains(name); }
  /// The entry of that name. Throws Error for an unknown name; the error has the nearest known name
  /// and `key`, the config key that gave the name.
  const Entry& at(const std::string& name, const std::string& key = {}) const {
    const auto it = entries_.find(name);
    if (it != entries_.end()) return it->second;
    const std::string nearest = nearest_name(name, names());
    fail(key.empty() ? "" : key + ": ", "unknown ", kind_, " '", name, "'",
         nearest.empty() ? "" : "; did you mean '" + nearest + "'?", " (known: ", joined(names()),
         ")");
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, entry] : entries_) out.push_back(name);
    return out;
  }
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::string kind_;
  std::map<std::string, Entry> entries_;
};

}  // namespace penstock
