#include "penstock/train/run_identity.h"

#include <map>
#include <set>

#include "penstock/base/error.h"
#include "penstock/routers/written_out.h"

namespace penstock {
namespace {

using Settings = std::map<std::string, std::string>;

/// Adds the node's values as TOML, by dotted keys such as "a.b.c".
void add_settings(const ConfigNode& node, const std::string& prefix, Settings& out) {
  for (const auto& [key, child] : node.table()) {
    if (child.is_table()) {
      add_settings(child, prefix + key + ".", out);
      continue;
    }
    ConfigNode holder;
    holder.set("v", child);
    const std::string text = to_toml(holder);  // "v = 1\n", or "" for an absent optional
    out[prefix + key] = text.empty() ? "not set" : text.substr(4, text.size() - 5);
  }
}

Settings settings_of_run(const Recipe& recipe) {
  Recipe same = result_settings(recipe);
  same.data.forget_places();
  Settings out;
  add_settings(written_out(same), "", out);
  return out;
}

std::string value_of(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "not set" : found->second;
}

}  // namespace

ConfigNode written_out(const Recipe& recipe) {
  Recipe whole = recipe;
  whole.model.router = written_out(recipe.model.router);
  return write_config(whole);
}

std::string difference(const Recipe& before, const Recipe& now) {
  const Settings old_settings = settings_of_run(before), new_settings = settings_of_run(now);
  std::set<std::string> keys;
  for (const auto* settings : {&old_settings, &new_settings})
    for (const auto& [key, value] : *settings) keys.insert(key);
  std::string first;
  std::size_t more = 0;
  // The method comes first: it explains the differences in keys that follow from it.
  const auto look_at = [&](const std::string& key) {
    const std::string a = value_of(old_settings, key), b = value_of(new_settings, key);
    if (a == b) return;
    if (first.empty())
      first = concat(key, ": ", a, " -> ", b);
    else
      ++more;
  };
  constexpr const char* kMethod = "model.router.method";
  look_at(kMethod);
  for (const auto& key : keys)
    if (key != kMethod) look_at(key);
  return more == 0 ? first : concat(first, " and ", more, more == 1 ? " more key" : " more keys");
}

}  // namespace penstock
