#include "penstock/cli/eval_requests.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/tokenizer_argument.h"
#include "penstock/cli/eval_text.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/eval/by_k.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/fold_routers.h"
#include "penstock/tasks/requests.h"

namespace penstock {
namespace {

/// Answers one batch.
void answer(LanguageModel& model, const std::vector<tasks::TokenRequest>& requests,
            std::int64_t k) {
  const auto scores = tasks::score_requests(model, requests, {.k = k});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    tasks::Row line = tasks::Row::object();
    tasks::add_score(line, requests[i], scores[i]);
    fmt::print("{}\n", json_text(line));
  }
  std::fflush(stdout);
}

/// A line's request. Checks that the model has all of its ids.
tasks::TokenRequest request_of(const std::string& line, const std::string& where,
                               const tasks::RequestEncoder& encoder, std::int64_t vocab) {
  tasks::TokenRequest out = read_request(encoder, tasks::parse_row(line, where));
  for (const std::int64_t id : out.ids)
    PENSTOCK_CHECK(id >= 0 && id < vocab, where, ": id ", id, " of a model whose ids go from 0 to ",
                   vocab - 1);
  return out;
}

void answer_all(std::istream& in, const std::string& name, LanguageModel& model,
                const tasks::RequestEncoder& encoder, std::int64_t k) {
  std::vector<tasks::TokenRequest> batch;
  std::string line;
  const auto finish = [&] {
    if (!batch.empty()) answer(model, batch, k);
    batch.clear();
  };
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty())
      finish();
    else
      batch.push_back(request_of(line, concat(name, ":", number), encoder, model.config().vocab));
  }
  finish();
}

}  // namespace

void run_eval_requests(const EvalTasksOptions& options) {
  const EndOnSignal guard("interrupted");
  const bool from_stdin = options.requests == "-";
  std::ifstream file;
  if (!from_stdin) {
    PENSTOCK_CHECK(!std::filesystem::is_directory(options.requests), options.requests,
                   ": is a folder; give a file with a JSON object a line, or -");
    file.open(options.requests);
    PENSTOCK_CHECK(file.is_open(), options.requests, ": cannot be opened");
  }
  const auto [tokenizer, loaded] = with_model(options.model, [&](const ModelArgument& argument) {
    const std::shared_ptr<const ModelSource> source = open_model_source(argument.path);
    if (options.k > 0) check_k_values(source->config(), {&options.k, 1});
    return std::pair(model_tokenizer(*source, options.tokenizer),
                     load_for_inference(source, options.fold || options.f64 ? Weights::as_f32
                                                                            : Weights::in_place));
  });
  if (options.f64) loaded->to(at::kDouble);
  const auto model = options.fold ? fold_routers(*loaded) : loaded;
  note_beyond_context(model->config(), options.sequence_length);
  const tasks::RequestEncoder encoder(*tokenizer, options.sequence_length > 0
                                                      ? options.sequence_length
                                                      : tasks::usual_window(model->config()));
  answer_all(from_stdin ? std::cin : file, from_stdin ? "stdin" : options.requests, *model, encoder,
             options.k);
}

}  // namespace penstock
