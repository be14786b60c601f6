// `penstock init`: writes a first recipe or study, from answers to questions or from options.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/named_word.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/cli/arguments/ask.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/init_files.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/data/prepare/assign_splits.h"
#include "penstock/data/prepare/expected_tokens.h"
#include "penstock/data/prepare/prepare.h"
#include "penstock/data/tokenizer.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/files/same_tokenizer.h"
#include "penstock/routers/part_names.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct InitOptions {
  std::string purpose, data, time, method, model, out;
};

constexpr int kMostDays = 10000;

/// The seconds that "90s", "30m", "2h" or "1d" mean; nothing for other words.
std::optional<double> seconds_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double seconds = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 86400;
  const bool known = unit == "s" || unit == "m" || unit == "h" || unit == "d";
  if (error != std::errc() || !known || !(value > 0)) return {};
  return value * seconds;
}

std::string wrong_time(const std::string& text) {
  const std::optional<double> seconds = seconds_of(text);
  if (!seconds) return "'" + text + "' is no time; write 90s, 30m, 2h or 1d";
  return *seconds <= kMostDays * 86400 ? "" : fmt::format("'{}' is above {}d", text, kMostDays);
}

std::string wrong_purpose(const std::string& text) {
  if (of_word<StartingPurpose>(text)) return "";
  return "'" + text + "' is none of " + word_list<StartingPurpose>();
}

std::string wrong_place(const std::string& path) {
  if (path == "system" || fs::exists(path)) return "";
  return path + " is not there; name a file, a folder or a corpus, or write system";
}

std::string wrong_model(const std::string& path) {
  return !path.empty() && fs::exists(path) ? "" : "'" + path + "' is not there";
}

/// Asks the user for each value that no option gives, except for the method. Takes the defaults
/// where no user can be asked. Returns the purpose.
StartingPurpose complete(InitOptions& options) {
  const auto settle = [](std::string& value, const char* option, const char* question,
                         const std::string& usual, const auto& wrong) {
    if (value.empty() && can_ask()) value = ask(question, usual, wrong);
    if (value.empty()) value = usual;
    const std::string complaint = wrong(value);
    PENSTOCK_CHECK(complaint.empty(), option, ": ", complaint);
  };
  settle(options.purpose, "--for",
         "What for? train a model from text, upcycle a dense checkpoint, or compare routers:",
         "train", wrong_purpose);
  const StartingPurpose purpose = *of_word<StartingPurpose>(options.purpose);
  if (purpose == StartingPurpose::upcycle) {
    PENSTOCK_CHECK(!options.model.empty() || can_ask(),
                   "options.model: name the dense model that is to become an MoE");
    settle(options.model, "--model", "Which dense model (folder, file or run)?", "", wrong_model);
  } else {
    PENSTOCK_CHECK(options.model.empty(), "options.model: no model is read to ", options.purpose,
                   "; leave it out, or say --for upcycle");
  }
  settle(options.data, "--data",
         "What text? a file, a folder, a corpus, or system for this machine's own:", "system",
         wrong_place);
  settle(options.time, "--time", "How long may training take? 90s, 30m, 2h, 1d:", "30m",
         wrong_time);
  if (options.method.empty())
    options.method = purpose == StartingPurpose::upcycle ? "vanilla" : "remoe";
  if (options.out.empty())
    options.out = purpose == StartingPurpose::compare ? "study.toml" : "recipe.toml";
  return purpose;
}

/// About the number of training tokens that `penstock data prepare` will make of the text at
/// `place`; without a tokenizer a token of each byte. Throws Error where that command will refuse
/// the text.
std::int64_t training_tokens_of(const std::string& place, const Tokenizer* tokenizer) {
  try {
    const double share = parse_split_plan(PrepareOptions().split).shares[0];
    return std::max<std::int64_t>(1, std::llround(expected_tokens(place, tokenizer) * share));
  } catch (const Error& error) {
    fail(error.what(), "; or make a corpus of it first (`penstock data prepare ",
         shell_quoted(place),
         " --out corpora/NAME`, with the options that it needs), and name this corpus");
  }
}

/// The corpus at `place`, or the corpus that the text at `place` will become.
/// @param tokenizer  the tokenizer that it must have; null: any. Throws Error for another one.
StartingData data_of(const std::string& place, const Tokenizer* tokenizer) {
  StartingData out{.corpus = place};
  if (fs::exists(fs::path(place) / kManifestFile)) {
    const Corpus corpus = Corpus::open(place);
    if (tokenizer) check_same_tokenizer(*tokenizer, corpus);
    out.vocab = corpus.vocab_size();
    out.tokens = corpus.count(Split::kTrain).tokens;
    return out;
  }
  const fs::path name = fs::path(place).filename().empty()
                            ? fs::path(place).parent_path().filename()
                            : fs::path(place).filename();
  out.corpus = "corpora/" + (place == "system" ? "system" : name.stem().string());
  out.exists = fs::exists(fs::path(out.corpus) / kManifestFile);
  out.source = place == "system" ? "--system" : place;
  if (out.exists) {
    const StartingData made = data_of(out.corpus, tokenizer);
    out.vocab = made.vocab;
    out.tokens = made.tokens;
  } else if (place != "system") {
    out.tokens = training_tokens_of(place, tokenizer);
  }
  return out;
}

/// The tokenizer of the model that is to be upcycled; null where the model has none that opens.
std::shared_ptr<const Tokenizer> tokenizer_of(const std::string& model) {
  const auto source = open_model_source(model_argument(model).path);
  try {
    return source->tokenizer();
  } catch (const Error&) {  // the model's ids are then taken to be the corpus's
    return nullptr;
  }
}

void check_free(const std::string& path) {
  PENSTOCK_CHECK(!fs::exists(path), path, ": is there already; name another options.out");
  check_can_write(path);
}

void init(InitOptions options) {
  const StartingPurpose purpose = complete(options);
  check_free(options.out);  // before the measurement, which takes seconds
  method_named(options.method, "--method");
  const auto tokenizer =
      purpose == StartingPurpose::upcycle ? tokenizer_of(options.model) : nullptr;
  StartingData data = data_of(options.data, tokenizer.get());
  if (tokenizer) data.tokenizer = options.model;
  StartingFiles files = starting_files({.purpose = purpose,
                                        .method = options.method,
                                        .model = options.model,
                                        .out = options.out,
                                        .seconds = *seconds_of(options.time),
                                        .data = std::move(data)});
  for (const auto& [path, text] : files.texts) check_free(path);
  for (const auto& [path, text] : files.texts)
    write_file_atomically(real_file_system(), path, text);
  fmt::print("{}", files.summary);
}

}  // namespace

void add_init_command(CLI::App& app) {
  auto options = std::make_shared<InitOptions>();
  CLI::App* command =
      app.add_subcommand("init", "Make a recipe that fits the available time, and print its cost");
  const auto add = [command](const char* name, std::string& value, const char* help) {
    return command->add_option(name, value, help);
  };
  add("--for", options->purpose,
      "purpose: train a model from text, upcycle a dense checkpoint, or compare routers")
      ->type_name("{" + word_list<StartingPurpose>() + "}");
  add("--data", options->data,
      "text: a file, a folder, a corpus, or system for the text on this machine");
  add("--time", options->time, "time for training: 90s, 30m, 2h, 1d");
  add("--method", options->method,
      "routing method, one of `penstock routers`; default remoe, to upcycle vanilla");
  add("--model", options->model, "dense model to upcycle");
  add("--out", options->out, "output file; default recipe.toml, for a comparison study.toml");
  command->footer(
      "On a terminal, the command asks for options that are not given; elsewhere it uses train,\n"
      "system and 30m. It trains a few steps now to measure speed, and no more. The model is the\n"
      "largest of five sizes that can see 20 tokens per active parameter, without embeddings, in\n"
      "the given time. The tokens of a text above 32 MB, and of any text for a model with its own\n"
      "tokens, are an estimate from samples of it.\n"
      "Examples:\n"
      "  penstock init\n"
      "  penstock init --data text.txt --time 1h --out mine.toml\n"
      "  penstock init --for compare --data corpora/system --time 2h\n"
      "  penstock init --for upcycle --model models/dense --data text.txt --time 1h");
  command->callback([options] { init(*options); });
}

}  // namespace penstock
