// The canonical text of a configuration and its hash.
#include "penstock/study/config/config_hash.h"

#include <fmt/format.h>

#include "penstock/train/recipe.h"

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

/// The defaults of all keys of a recipe, with those of the parts of this recipe's router.
std::map<std::string, std::string> default_settings(const Recipe& recipe) {
  ConfigNode defaults = write_config(Recipe{});
  RouterConfig router = recipe.model.router;
  router.parts.clear();
  for (const auto& [part, options] : resolve(router).options)
    defaults.set("model.router." + part, options);
  return flatten(defaults);
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
  const auto recipe = read_config<Recipe>(resolved);
  const auto defaults = default_settings(recipe);
  std::string text;
  Recipe settings = result_settings(recipe);
  if (!corpus_hash.empty()) settings.data.forget_places();
  for (auto [key, value] : flatten(write_config(settings))) {
    if (key == "data.corpus" && !corpus_hash.empty()) value = "#" + corpus_hash;
    const auto found = defaults.find(key);
    if (found == defaults.end() || found->second != value) text += key + " = " + value + "\n";
  }
  return fmt::format("{:016x}", fnv1a(text));
}

std::string finetuning_hash(const FinetuneConfig& config, const std::string& format,
                            const std::string& checkpoint) {
  std::string text = format + "\n" + checkpoint + "\n";
  const std::map<std::string, std::string> later = {
      {"decay", "\"decoupled\""}, {"precision", "\"fp32\""}, {"moments", "\"fp32\""}};
  for (const auto& [key, value] : flatten(write_config(config))) {
    if (key == "emulate_bf16") continue;  // it does not change results
    const auto found = later.find(key);
    if (found == later.end() || found->second != value) text += key + " = " + value + "\n";
  }
  return fmt::format("{:016x}", fnv1a(text));
}

}  // namespace penstock::study
