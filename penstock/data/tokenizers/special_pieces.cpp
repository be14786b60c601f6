#include "penstock/data/tokenizers/special_pieces.h"

#include <nlohmann/json.hpp>
#include <span>

namespace penstock {
namespace {

constexpr const char* kUsualEnds[] = {"</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>"};
constexpr const char* kUsualBegins[] = {"<s>", "<|begin_of_text|>", "<bos>"};

/// The text of an entry such as "eos_token": a string, or an object with "content"; otherwise "".
std::string named_token(const nlohmann::json& config, const char* key) {
  if (!config.is_object() || !config.contains(key)) return {};
  const auto& value = config.at(key);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value.at("content").is_string())
    return value.at("content").get<std::string>();
  return {};
}

TokenId usual(std::span<const char* const> names, const std::vector<AddedToken>& added) {
  for (const char* name : names)
    for (const AddedToken& token : added)
      if (token.control && token.content == name) return token.id;
  return -1;
}

}  // namespace

void set_special_pieces(const nlohmann::json& config, const std::vector<AddedToken>& added,
                        const std::function<TokenId(const std::string&)>& id,
                        Vocabulary& vocabulary) {
  const auto find = [&](const char* key, std::span<const char* const> names) {
    const std::string name = named_token(config, key);
    const TokenId named = name.empty() ? -1 : id(name);
    return named >= 0 ? named : usual(names, added);
  };
  vocabulary.eos = find("eos_token", kUsualEnds);
  vocabulary.bos = find("bos_token", kUsualBegins);
  vocabulary.padding = find("pad_token", {});
  if (config.is_object() && config.contains("add_bos_token") &&
      config.at("add_bos_token").is_boolean())
    vocabulary.add_bos = config.at("add_bos_token").get<bool>() && vocabulary.bos >= 0;
}

AddedToken read_added_token(const nlohmann::json& json, TokenId id) {
  const auto flag = [&](const char* name, bool otherwise) {
    return json.contains(name) ? json.at(name).get<bool>() : otherwise;
  };
  AddedToken token{.id = id, .content = json.at("content").get<std::string>()};
  token.control = flag("special", false);
  token.lstrip = flag("lstrip", false);
  token.rstrip = flag("rstrip", false);
  token.normalized = flag("normalized", !token.control);
  token.single_word = flag("single_word", false);
  return token;
}

}  // namespace penstock
