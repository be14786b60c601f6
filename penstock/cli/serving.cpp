#include "penstock/cli/serving.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "penstock/analysis/token_experts.h"
#include "penstock/base/broken_pipe.h"
#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/base/progress.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/infer/pass_reader.h"
#include "penstock/models/files/chat_template.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/files/same_tokenizer.h"
#include "penstock/models/fold_routers.h"
#include "penstock/serve/corpus_json.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/interrupt.h"

namespace penstock {
namespace {

constexpr std::int64_t kCorpusTokens = 65536;  // most tokens of the pass over a corpus
constexpr std::int64_t kCorpusWindow = 1024;

/// The form of chats, or the reason why there is none.
void choose_chat_form(const std::string& wanted, const std::string& path,
                      serve::ServedModel& model) {
  const std::string forms = serve::chat_form_names();
  if (!wanted.empty()) {
    model.chat_form = of_word<serve::ChatForm>(wanted);
    PENSTOCK_CHECK(model.chat_form, "there is no chat template '", wanted,
                   "'; give --chat-template ", forms);
    return;
  }
  const std::string text = chat_template_of(path);
  if (!text.empty()) model.chat_form = serve::recognise_chat_form(text);
  model.no_chat = fmt::format(
      "{}: start the server with --chat-template NAME, one of {}, or ask /v1/completions",
      text.empty() ? "the model comes without a chat template"
                   : "the model's chat template is none of the known ones",
      forms);
}

/// The name of a folder, or that of a file without its suffix.
std::string name_of(const std::string& path) {
  const auto normal = std::filesystem::absolute(path).lexically_normal();
  const auto place = normal.has_filename() ? normal : normal.parent_path();
  return (std::filesystem::is_directory(place) ? place.filename() : place.stem()).string();
}

/// A model, read from its files.
struct Loaded {
  std::string path;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<LanguageModel> model;
};

Loaded load(const std::string& path, Weights weights) {
  return with_model(path, [&](const ModelArgument& chosen) {
    const std::shared_ptr<const ModelSource> source = open_model_source(chosen.path);
    return Loaded{chosen.path, source->tokenizer(), load_for_inference(source, weights)};
  });
}

std::string counted_corpus(const Loaded& loaded, const std::string& path) {
  const Corpus corpus = Corpus::open(path);
  check_same_tokenizer(*loaded.tokenizer, corpus);
  const Split split = study::measured_split(corpus);
  const std::int64_t context = loaded.model->config().context;
  ProgressLine line(stderr);
  EvaluateOptions reading = evaluation_settings(
      loaded.model->config(), nullptr,
      {.split = split,
       .max_tokens = kCorpusTokens,
       .keys = {.sequence_length = context > 0 ? std::min(context, kCorpusWindow) : kCorpusWindow,
                .streams = 0}});
  reading.progress = [&](double done, const LossTotals&) {
    if (line.due()) line.show(fmt::format("reading the corpus {:3.0f}%", 100 * done));
  };
  const auto counted = analysis::count_token_experts(*loaded.model, corpus, reading);
  line.finish();
  return serve::corpus_json(counted, corpus.tokenizer(), name_of(path),
                            std::string(split_name(split)));
}

void add(const ServingArguments& arguments, const Loaded& loaded, const std::string& name,
         ServedModels& out) {
  for (const serve::ServedModel& one : out.models)
    PENSTOCK_CHECK(one.name != name, "two models are called '", name,
                   "': give --name for the first, or rename a folder");
  serve::ServedModel& model = out.models.emplace_back();
  model.name = name;
  model.service =
      std::make_shared<serve::Service>(loaded.model, loaded.tokenizer, arguments.service);
  choose_chat_form(arguments.chat_template, loaded.path, model);
  const std::string alone = one_at_a_time(*loaded.model);
  if (!alone.empty())
    print_line(stderr, fmt::format("{} writes one text at a time: {}", name, alone));
}

}  // namespace

ServedModels load_served(const ServingArguments& arguments) {
  const Weights weights = arguments.exact ? Weights::in_place : Weights::in_place_int8;
  ServedModels out;
  const Loaded first = load(arguments.model, weights);
  const std::string name = arguments.name.empty() ? name_of(arguments.model) : arguments.name;
  if (!arguments.data.empty())
    out.endpoints["/v1/corpus"] = [text = counted_corpus(first, arguments.data)] {
      return serve::Reply{.body = text};
    };
  add(arguments, first, name, out);
  if (arguments.folded) {
    Loaded folded = load(arguments.model, Weights::as_f32);
    folded.model = fold_routers(*folded.model);
    add(arguments, folded, name + "-folded", out);
  }
  for (const std::string& path : arguments.beside)
    add(arguments, load(path, weights), name_of(path), out);
  return out;
}

std::vector<std::string> own_names(const std::string& host) {
  return {"localhost", "127.0.0.1", "[::1]", host};
}

std::string address_of(const serve::HttpServer& server, const std::string& host) {
  const bool six = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/", six ? "[" : "", host, six ? "]" : "", server.port());
}

void serve_until_signal(const std::vector<serve::ServedModel>& models, serve::HttpServer& server,
                        std::int64_t grace) {
  ignore_broken_pipes();  // a closed standard error must not end running answers
  const InterruptGuard guard;
  while (guard.signal() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (!models.empty())
    print_line(stderr, fmt::format("stopping: answers under way have {} s to end", grace));
  for (const serve::ServedModel& model : models) model.service->close();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(grace);
  for (const serve::ServedModel& model : models)
    model.service->stop(std::max(std::chrono::milliseconds(0),
                                 std::chrono::duration_cast<std::chrono::milliseconds>(
                                     end - std::chrono::steady_clock::now())));
  server.stop();
}

}  // namespace penstock
