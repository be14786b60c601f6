#include "penstock/models/files/generation_files.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "penstock/models/files/model_folder.h"
#include "penstock/models/files/open_model.h"

namespace penstock {
namespace {

using nlohmann::json;

/// The object that the text holds; an empty one if it holds none.
json object_in(const std::string& text) {
  json out = json::parse(text, nullptr, false);
  return out.is_object() ? out : json::object();
}

/// The ids under a key, which is a number or a list of numbers; nothing if they are no ids of the
/// vocabulary.
std::optional<std::vector<TokenId>> ids_under(const json& object, const char* key,
                                              std::int64_t vocab) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::vector<TokenId>{};
  std::vector<TokenId> out;
  for (const json& id : found->is_array() ? *found : json::array({*found})) {
    const bool fits =
        id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab);
    if (!fits) return std::nullopt;
    out.push_back(id.get<TokenId>());
  }
  return out;
}

}  // namespace

SpecialIds special_ids(const std::string& model, std::int64_t vocab) {
  if (is_model_file(model)) return {};
  const json config = object_in(text_beside(model, "config.json"));
  const auto under = [&](const char* key) {
    return ids_under(config, key, vocab).value_or(std::vector<TokenId>{});
  };
  return {under("bos_token_id"), under("eos_token_id"), under("pad_token_id")};
}

std::map<std::string, std::string> generation_files(const std::string& model, std::int64_t vocab) {
  if (is_model_file(model)) return {};
  const std::string text = text_beside(model, kGenerationConfigFile);
  const json config = object_in(text);
  if (config.empty()) return {};
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (!ids_under(config, key, vocab)) return {};
  return {{kGenerationConfigFile, text}};
}

}  // namespace penstock
