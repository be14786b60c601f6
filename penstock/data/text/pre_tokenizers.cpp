#include "penstock/data/text/pre_tokenizers.h"

#include <algorithm>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/data/text/unicode.h"

namespace penstock {
namespace {

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// DeepSeek's letters: the letters with case of an older Unicode version.
constexpr const char* kDeepSeekLetters =
    "\\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"
    "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59"
    "\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"
    "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
    "]+";
constexpr const char* kDeepSeekPunctuation =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";
constexpr const char* kDeepSeekIdeographs = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
constexpr const char* kPunctuation = R"([\p{P}$+<=>^`|~]+)";
constexpr const char* kOneNumber = R"(\p{N})";

const std::vector<PreTokenizer>& pre_tokenizer_rules() {
  static const std::vector<PreTokenizer> kRules = {
      {"gpt-2", {kGpt2}},
      {"qwen2",
       {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
        R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
       false,
       true},
      {"llama-bpe",
       {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
        R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
       true},
      {"deepseek-llm",
       {R"([\r\n])", kDeepSeekLetters, kDeepSeekPunctuation, R"(\s+$)", kDeepSeekIdeographs,
        R"(\p{N}+)"}},
      {"deepseek-coder",
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekIdeographs, kOneNumber}},
      {"deepseek-v3",
       {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
        R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
      {"falcon", {kPunctuation, kGpt2, "[0-9][0-9][0-9]"}},
      {"starcoder", {kOneNumber, kGpt2}},
  };
  return kRules;
}

constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"olmo", "gpt-2"},          {"mpt", "gpt-2"},           {"phi-2", "gpt-2"},
    {"llama3", "llama-bpe"},    {"llama-v3", "llama-bpe"},  {"falcon3", "llama-bpe"},
    {"pixtral", "llama-bpe"},   {"megrez", "qwen2"},        {"deepseek-r1-qwen", "qwen2"},
    {"refact", "starcoder"},    {"command-r", "starcoder"}, {"smollm", "starcoder"},
    {"codeshell", "starcoder"},
};

/// Patterns of a tokenizer.json that are equivalent to a named rule although they differ from it.
/// They also cut within matches of `never`, so they are equivalent only if no piece of the
/// vocabulary contains such a match.
struct Spelling {
  std::string_view name;
  std::vector<std::string> patterns, byte_patterns;
  std::string never;
};

std::vector<Spelling> other_spellings() {
  std::vector<std::string> llm = pre_tokenizer_patterns("deepseek-llm");
  llm.back() = kOneNumber;
  return {{"deepseek-llm", llm, {}, "[0-9][0-9]"},
          // After ByteLevel some bytes of other characters have names that are numbers.
          {"falcon",
           {kPunctuation, kGpt2},
           {R"(\p{N}+)", "[0-9][0-9][0-9]"},
           R"(\p{N}\P{N}|\P{N}\p{N})"}};
}

/// Replaces line ends in patterns by escapes. Some files have unescaped line ends.
std::vector<std::string> with_escaped_line_ends(std::vector<std::string> patterns) {
  for (std::string& pattern : patterns)
    pattern = replaced(replaced(pattern, "\r", "\\r"), "\n", "\\n");
  return patterns;
}

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const auto& [other, known] : kOtherNames)
    if (other == name) name = known;
  const auto rule = std::ranges::find(pre_tokenizer_rules(), name, &PreTokenizer::name);
  return rule == pre_tokenizer_rules().end() ? nullptr : &*rule;
}

std::vector<std::string> pre_tokenizer_patterns(std::string_view name) {
  const PreTokenizer* const rule = find_pre_tokenizer(name);
  if (rule) return rule->patterns;
  fail("the pre-tokenizer '", std::string(name.substr(0, 60)), "' is not implemented; ",
       joined(pre_tokenizer_rules(), ", ", &PreTokenizer::name), " are");
}

std::string pre_tokenizer_name(const std::vector<std::string>& patterns,
                               const std::vector<std::string>& byte_patterns,
                               const std::function<bool(const std::string& pattern)>& any_piece) {
  const std::vector<std::string> wanted = with_escaped_line_ends(patterns);
  for (const auto& rule : pre_tokenizer_rules())
    if (rule.patterns == wanted && byte_patterns.empty()) return std::string(rule.name);
  for (const Spelling& one : other_spellings())
    if (one.patterns == wanted && one.byte_patterns == byte_patterns && !any_piece(one.never))
      return std::string(one.name);
  return {};
}

}  // namespace penstock
