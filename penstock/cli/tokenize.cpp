// `penstock tokenize`: turns a text into tokens, and tokens into text.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/json_text.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/given_value.h"
#include "penstock/cli/arguments/tokenizer_argument.h"
#include "penstock/cli/commands.h"

namespace penstock {
namespace {

struct TokenizeOptions {
  std::string tokenizer, input, text;
  bool json = false, decode = false, plain = false;
};

/// Reads whole numbers between white space, commas and brackets: lines of ids, or a JSON list. For
/// a JSON object it reads the "ids".
/// @param name  the text's name in errors
std::vector<TokenId> parse_ids(const std::string& text, const std::string& name) {
  if (text.starts_with('{')) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    PENSTOCK_CHECK(json.is_object() && json.contains("ids"), name,
                   ": is a JSON object without \"ids\", or cut short");
    return parse_ids(json.at("ids").dump(), name);
  }
  std::vector<TokenId> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto result = std::from_chars(at, end, id);
    PENSTOCK_CHECK(result.ec == std::errc(), name, ": '", std::string(at, std::min(end, at + 20)),
                   "' is no token id");
    ids.push_back(id);
    at = result.ptr;
  }
  return ids;
}

/// Calls the function. Errors begin with the name of the text or of the ids.
template <class Call>
auto naming_text(const std::string& name, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    fail(name, ": ", error.what());
  }
}

void run_tokenize(const TokenizeOptions& options, bool has_text) {
  const auto tokenizer = tokenizer_argument(options.tokenizer);
  const std::string input = has_text ? options.text : real_file_system().read(options.input);
  const std::string name = has_text ? "--text" : options.input;
  if (options.decode) {
    const std::vector<TokenId> ids = parse_ids(input, name);
    const std::string text = naming_text(name, [&] { return tokenizer->decode(ids); });
    if (options.json)
      fmt::print("{}\n", json_text(nlohmann::ordered_json{{"text", text}}, 2));
    else
      std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  const std::vector<TokenId> ids = naming_text(name, [&] {
    return options.plain ? tokenizer->encode(input) : tokenizer->encode_with_controls(input);
  });
  if (!options.json) {
    for (const TokenId id : ids) fmt::print("{}\n", id);
    return;
  }
  const nlohmann::ordered_json out = {{"tokenizer", tokenizer->spec()},
                                      {"vocab_size", tokenizer->vocab_size()},
                                      {"bytes", input.size()},
                                      {"tokens", ids.size()},
                                      {"ids", ids}};
  fmt::print("{}\n", json_text(out));
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command =
      app.add_subcommand("tokenize", "Print the token ids of a text, or the text of token ids");
  command->add_option("MODEL_OR_TOKENIZER", options->tokenizer, kTokenizerPlaces)->required();
  CLI::Option* input =
      command->add_option("--input", options->input, "file of text (or of ids with --decode)");
  CLI::Option* text = may_be_empty(
      command->add_option("--text", options->text, "the text itself (or ids with --decode)"));
  text->excludes(input);
  CLI::Option* plain = command->add_flag(
      "--plain", options->plain, "treat special tokens in the text (\"</s>\") as ordinary text");
  command->add_flag("--decode", options->decode, "read token ids and print their text")
      ->excludes(plain);
  add_json(*command, options->json);
  command->footer(
      "Examples:\n"
      "  penstock tokenize runs/remoe --text \"the gate decides\"\n"
      "  penstock tokenize qwen2/tokenizer.json --input notes.txt --json\n"
      "  penstock tokenize tok512.bin --decode --text \"403 407 261\"\n"
      "The ids do not include the token at the start of a document (BOS).");
  command->callback([options, input, text] {
    if (input->count() + text->count() == 0) throw CLI::RequiredError("--input or --text");
    run_tokenize(*options, text->count() > 0);
  });
}

}  // namespace penstock
