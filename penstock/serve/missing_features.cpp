#include "penstock/serve/missing_features.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace penstock::serve {
namespace {

struct MissingFeature {
  const char* key;
  /// A JSON array of the values that change nothing, besides null, {} and [].
  const char* neutral = "[]";
};

constexpr auto kMissing = std::to_array<MissingFeature>({
    // OpenAI
    {"audio"},
    {"function_call", R"(["none", "auto"])"},
    {"functions"},
    {"modalities", R"([["text"]])"},
    {"prediction"},
    {"reasoning_effort", R"(["none"])"},
    {"response_format", R"([{"type": "text"}])"},
    {"suffix", R"([""])"},
    {"tool_choice", R"(["none", "auto"])"},
    {"tools"},
    {"verbosity", R"(["medium"])"},
    // llama.cpp
    {"dry_multiplier", "[0]"},
    {"dynatemp_range", "[0]"},
    {"grammar", R"([""])"},
    {"id_slot", "[-1]"},
    {"ignore_eos", "[false]"},
    {"image_data"},
    {"json_schema"},
    {"lora"},
    {"min_keep", "[0, 1]"},
    {"mirostat", "[0]"},
    {"n_discard", "[0]"},
    {"n_keep", "[0]"},
    {"n_probs", "[0]"},
    {"post_sampling_probs", "[false]"},
    {"repeat_penalty", "[1]"},
    {"response_fields"},
    {"return_progress", "[false]"},
    {"return_tokens", "[false]"},
    {"samplers"},
    {"t_max_predict_ms", "[0, -1]"},
    {"timings_per_token", "[false]"},
    {"top_n_sigma", "[-1]"},
    {"typ_p", "[1]"},
    {"typical_p", "[1]"},
    {"xtc_probability", "[0]"},
    // vLLM
    {"add_generation_prompt", "[true]"},
    {"allowed_token_ids"},
    {"bad_words"},
    {"chat_template", R"([""])"},
    {"chat_template_kwargs"},
    {"continue_final_message", "[false]"},
    {"documents"},
    {"guided_choice"},
    {"guided_grammar", R"([""])"},
    {"guided_json"},
    {"guided_regex", R"([""])"},
    {"include_stop_str_in_output", "[false]"},
    {"length_penalty", "[1]"},
    {"logits_processors"},
    {"min_tokens", "[0]"},
    {"priority", "[0]"},
    {"prompt_logprobs"},
    {"return_token_ids", "[false]"},
    {"return_tokens_as_token_ids", "[false]"},
    {"skip_special_tokens", "[true]"},
    {"spaces_between_special_tokens", "[true]"},
    {"stop_token_ids"},
    {"structured_outputs"},
    {"truncate_prompt_tokens"},
    {"use_beam_search", "[false]"},
});

constexpr auto kMissingInMessages = std::to_array<MissingFeature>({
    {"annotations"},
    {"audio"},
    {"function_call"},
    {"reasoning", R"([""])"},
    {"reasoning_content", R"([""])"},
    {"refusal", R"([""])"},
    {"tool_calls"},
});

void refuse_features(ObjectReader& reader, std::span<const MissingFeature> missing) {
  for (const auto& [key, neutral] : missing) {
    const nlohmann::json* value = reader.find(key);
    if (!value || is_empty(*value)) continue;
    const auto accepted = nlohmann::json::parse(neutral);
    if (std::ranges::find(accepted, *value) != accepted.end()) continue;
    std::string names;
    for (const nlohmann::json& one : accepted)
      names += fmt::format("{}{}", names.empty() ? ", except " : " or ", one.dump());
    reader.refuse(key, "is not supported" + names);
  }
}

}  // namespace

bool is_empty(const nlohmann::json& value) { return value.is_structured() && value.empty(); }

void refuse_missing_features(ObjectReader& request) {
  refuse_features(request, kMissing);
  // These say how a feature of the table works, or nothing about the text.
  request.ignore({"cache_prompt",
                  "dry_allowed_length",
                  "dry_base",
                  "dry_penalty_last_n",
                  "dry_sequence_breakers",
                  "dynatemp_exponent",
                  "guided_decoding_backend",
                  "metadata",
                  "mirostat_eta",
                  "mirostat_tau",
                  "parallel_tool_calls",
                  "prompt_cache_key",
                  "prompt_cache_retention",
                  "repeat_last_n",
                  "request_id",
                  "safety_identifier",
                  "service_tier",
                  "store",
                  "user",
                  "xtc_threshold"});
}

void refuse_missing_features_of_message(ObjectReader& message) {
  refuse_features(message, kMissingInMessages);
  message.ignore({"name"});
}

}  // namespace penstock::serve
