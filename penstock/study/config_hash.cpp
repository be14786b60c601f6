// Canonical text and its hash.
#include "penstock/study/config_hash.h"

#include <fmt/format.h>

namespace penstock::study {
namespace {

void flatten_into(const ConfigNode& node, const std::string& prefix,
                  std::map<std::string, std::string>& out) {
  for (const auto& [key, child] : node.table()) {
    if (child.is_table()) {
      flatten_into(child, prefix + key + ".", out);
    } else if (!child.empty()) {
      ConfigNode holder;
      holder.set("v", child);
      std::string text = to_toml(holder);  // "v = 1\n"
      text = text.size() > 4 ? text.substr(4) : "";
      while (!text.empty() && text.back() == '\n') text.pop_back();
      out[prefix + key] = text;
    }
  }
}

}  // namespace

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3ULL;
  return hash;
}

std::map<std::string, std::string> flatten(const ConfigNode& root) {
  std::map<std::string, std::string> out;
  flatten_into(root, "", out);
  return out;
}

std::string plain_setting(const std::map<std::string, std::string>& flat, const std::string& key) {
  const auto it = flat.find(key);
  if (it == flat.end()) return "";
  const std::string& text = it->second;
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::string config_hash(const ConfigNode& resolved, const std::string& corpus_hash) {
  std::string text;
  for (const auto& [key, value] : flatten(resolved)) {
    if (key.starts_with("run.") || key == "name" || key == "description") continue;
    if (key == "data.corpus" && !corpus_hash.empty())
      text += "data.corpus = #" + corpus_hash + "\n";
    else
      text += key + " = " + value + "\n";
  }
  return fmt::format("{:016x}", fnv1a(text));
}

}  // namespace penstock::study
