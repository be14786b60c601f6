#include "penstock/data/text/pre_tokenizers.h"

#include "penstock/base/error.h"

namespace penstock {
namespace {

struct PreTokenizer {
  std::string_view name, pattern;
};

constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"llama-bpe",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

}  // namespace

std::string pre_tokenizer_pattern(std::string_view name) {
  if (name == "olmo") name = "gpt-2";
  for (const auto& known : kPreTokenizers)
    if (known.name == name) return std::string(known.pattern);
  fail("the pre-tokenizer '", std::string(name),
       "' is not implemented; gpt-2, olmo, qwen2 and llama-bpe are");
}

std::string pre_tokenizer_name(std::string_view pattern) {
  for (const auto& known : kPreTokenizers)
    if (known.pattern == pattern) return std::string(known.name);
  return {};
}

}  // namespace penstock
