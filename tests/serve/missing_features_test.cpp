// Keys of features that the server does not have: which values change nothing and are accepted, and
// that others are refused by the key's name.
#include "penstock/serve/missing_features.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "penstock/serve/request.h"

namespace penstock::serve {
namespace {

struct FeatureRow {
  std::string key;
  std::vector<std::string> neutral;  // besides null, {} and []
  std::string asked;                 // a value that asks for the feature
};

const std::vector<FeatureRow> kRequestRows = {
    {"audio", {}, R"({"voice": "a"})"},
    {"function_call", {"\"none\"", "\"auto\""}, R"({"name": "f"})"},
    {"functions", {}, R"([{"name": "f"}])"},
    {"modalities", {R"(["text"])"}, R"(["text", "audio"])"},
    {"prediction", {}, R"({"type": "content"})"},
    {"reasoning_effort", {"\"none\""}, "\"high\""},
    {"response_format", {R"({"type": "text"})"}, R"({"type": "json_object"})"},
    {"suffix", {"\"\""}, "\"x\""},
    {"tool_choice", {"\"none\"", "\"auto\""}, "\"required\""},
    {"tools", {}, R"([{"type": "function"}])"},
    {"verbosity", {"\"medium\""}, "\"low\""},
    {"dry_multiplier", {"0.0"}, "0.8"},
    {"dynatemp_range", {"0"}, "0.5"},
    {"grammar", {"\"\""}, "\"root ::= x\""},
    {"id_slot", {"-1"}, "0"},
    {"ignore_eos", {"false"}, "true"},
    {"image_data", {}, R"([{"id": 1}])"},
    {"json_schema", {}, R"({"type": "object"})"},
    {"lora", {}, R"([{"id": 0, "scale": 1}])"},
    {"min_keep", {"0", "1"}, "2"},
    {"mirostat", {"0"}, "2"},
    {"n_discard", {"0"}, "1"},
    {"n_keep", {"0"}, "-1"},
    {"n_probs", {"0"}, "5"},
    {"post_sampling_probs", {"false"}, "true"},
    {"repeat_penalty", {"1", "1.0"}, "0"},
    {"response_fields", {}, R"(["content"])"},
    {"return_progress", {"false"}, "true"},
    {"return_tokens", {"false"}, "true"},
    {"samplers", {}, R"(["top_k"])"},
    {"t_max_predict_ms", {"0", "-1"}, "100"},
    {"timings_per_token", {"false"}, "true"},
    {"top_n_sigma", {"-1"}, "1"},
    {"typ_p", {"1"}, "0.9"},
    {"typical_p", {"1.0"}, "0.9"},
    {"xtc_probability", {"0"}, "0.5"},
    {"add_generation_prompt", {"true"}, "false"},
    {"allowed_token_ids", {}, "[1]"},
    {"bad_words", {}, R"(["a"])"},
    {"chat_template", {"\"\""}, "\"{{ x }}\""},
    {"chat_template_kwargs", {}, R"({"enable_thinking": false})"},
    {"continue_final_message", {"false"}, "true"},
    {"documents", {}, R"([{"text": "a"}])"},
    {"guided_choice", {}, R"(["a", "b"])"},
    {"guided_grammar", {"\"\""}, "\"root ::= x\""},
    {"guided_json", {}, R"({"type": "object"})"},
    {"guided_regex", {"\"\""}, "\"a+\""},
    {"include_stop_str_in_output", {"false"}, "true"},
    {"length_penalty", {"1"}, "0.5"},
    {"logits_processors", {}, R"(["a"])"},
    {"min_tokens", {"0"}, "1"},
    {"priority", {"0"}, "1"},
    {"prompt_logprobs", {}, "0"},
    {"return_token_ids", {"false"}, "true"},
    {"return_tokens_as_token_ids", {"false"}, "true"},
    {"skip_special_tokens", {"true"}, "false"},
    {"spaces_between_special_tokens", {"true"}, "false"},
    {"stop_token_ids", {}, "[2]"},
    {"structured_outputs", {}, R"({"regex": "a+"})"},
    {"truncate_prompt_tokens", {}, "10"},
    {"use_beam_search", {"false"}, "true"},
};

const std::vector<FeatureRow> kMessageRows = {
    {"annotations", {}, R"([{"type": "url_citation"}])"},
    {"audio", {}, R"({"id": "a"})"},
    {"function_call", {}, R"({"name": "f"})"},
    {"reasoning", {"\"\""}, "\"because\""},
    {"reasoning_content", {"\"\""}, "\"because\""},
    {"refusal", {"\"\""}, "\"no\""},
    {"tool_calls", {}, R"([{"id": "a"}])"},
};

/// The key that is refused, or nothing.
template <class Parse>
std::optional<std::string> refused_key(Parse parse, const std::string& body) {
  try {
    parse(body, RequestLimits());
  } catch (const RequestError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_NE(error.message().find("' is not supported"), std::string::npos) << error.message();
    return error.parameter();
  }
  return {};
}

/// @param body  of a value of the row's key
template <class Parse, class Body>
void expect_row(Parse parse, const FeatureRow& row, const std::string& key, Body body) {
  SCOPED_TRACE(row.key);
  std::vector<std::string> accepted = row.neutral;
  accepted.insert(accepted.end(), {"null", "{}", "[]"});
  for (const std::string& value : accepted)
    EXPECT_EQ(refused_key(parse, body(value)), std::nullopt) << value;
  EXPECT_EQ(refused_key(parse, body(row.asked)), key) << row.asked;
}

TEST(MissingFeatures, ARequestMayHaveTheirNeutralValuesAlone) {
  for (const FeatureRow& row : kRequestRows) {
    const std::string own = ", \"" + row.key + "\": ";
    expect_row(parse_completion, row, row.key,
               [&](const std::string& value) { return R"({"prompt": "a")" + own + value + "}"; });
    expect_row(parse_chat, row, row.key, [&](const std::string& value) {
      return R"({"messages": [{"role": "user", "content": "a"}])" + own + value + "}";
    });
  }
}

TEST(MissingFeatures, AMessageMayHaveTheirNeutralValuesAlone) {
  for (const FeatureRow& row : kMessageRows)
    expect_row(parse_chat, row, "messages[0]." + row.key, [&](const std::string& value) {
      return R"({"messages": [{"role": "assistant", "content": "a", ")" + row.key + "\": " + value +
             "}]}";
    });
}

TEST(MissingFeatures, AMessageThatCallsToolsMayHaveNoContent) {
  for (const char* content : {"", R"("content": null, )"})
    EXPECT_EQ(
        refused_key(parse_chat, R"({"messages": [{"role": "assistant", )" + std::string(content) +
                                    R"("tool_calls": [{"id": "a"}]}]})"),
        "messages[0].tool_calls");
}

TEST(MissingFeatures, ARefusalNamesTheValuesThatAreAccepted) {
  const auto message = [](const std::string& keys) -> std::string {
    try {
      parse_completion(R"({"prompt": "a", )" + keys + "}");
    } catch (const RequestError& error) {
      return error.message();
    }
    return {};
  };
  EXPECT_EQ(message(R"("typical_p": 0.9)"), "'typical_p' is not supported, except 1");
  EXPECT_EQ(message(R"("tool_choice": "required")"),
            R"('tool_choice' is not supported, except "none" or "auto")");
  EXPECT_EQ(message(R"("tools": [1])"), "'tools' is not supported");
}

TEST(MissingFeatures, OptionsOfThemAreIgnored) {
  EXPECT_NO_THROW(parse_completion(R"({"prompt": "a", "user": "u", "store": true,
      "metadata": {"a": "b"}, "repeat_last_n": 64, "xtc_threshold": 0.1, "dry_base": 1.75,
      "cache_prompt": true})"));
}

}  // namespace
}  // namespace penstock::serve
