// A trained model in Python: logits, text, losses and routing. The weights stay in the file.
#include <cmath>
#include <limits>

#include "penstock/analysis/routing_trace.h"
#include "penstock/base/error.h"
#include "penstock/base/named_word.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/tokenizer_argument.h"
#include "penstock/cli/run_settings.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/eval/passes.h"
#include "penstock/eval/sequences.h"
#include "penstock/eval/text_windows.h"
#include "penstock/infer/generate.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/files/same_tokenizer.h"
#include "penstock/models/fold_routers.h"
#include "penstock/train/evaluation_settings.h"
#include "python/bindings.h"

namespace penstock::python {
namespace {

/// The model that load() returns.
struct Loaded {
  ModelArgument argument;
  std::shared_ptr<LanguageModel> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< may be null
  std::string no_tokenizer;                    ///< why the tokenizer is null
  std::optional<Recipe> run;                   ///< the recipe of the model's run

  const Tokenizer& text() const {
    PENSTOCK_CHECK(tokenizer, argument.path, ": ", no_tokenizer);
    return *tokenizer;
  }
};

std::shared_ptr<Loaded> load(const std::string& path, const std::string& tokenizer, bool fold,
                             bool as_trained) {
  const WithoutGil released;
  return std::make_shared<Loaded>(with_model(path, [&](const ModelArgument& argument) {
    const std::shared_ptr<const ModelSource> source = open_model_source(argument.path);
    Loaded out{.argument = argument, .run = run_settings(argument.path)};
    out.model = load_for_evaluation(source, as_trained, fold ? Weights::as_f32 : Weights::in_place);
    if (fold) out.model = fold_routers(*out.model);
    try {
      out.tokenizer = model_tokenizer(*source, tokenizer);
    } catch (const Error& error) {
      if (!tokenizer.empty()) throw;
      out.no_tokenizer = error.what();
    }
    return out;
  }));
}

at::Tensor logits(const Loaded& loaded, const at::Tensor& ids, std::int64_t k) {
  const WithoutGil released;
  LanguageModel& model = *loaded.model;
  const ModelConfig& config = model.config();
  const at::Tensor rows = ids.dim() == 1 ? ids.unsqueeze(0) : ids;
  PENSTOCK_CHECK(rows.dim() == 2 && rows.numel() > 0 && !rows.is_floating_point(),
                 "ids are whole numbers [T] or [B, T], at least one");
  const at::Tensor tokens = rows.to(at::kLong).contiguous();
  PENSTOCK_CHECK(
      tokens.min().item<std::int64_t>() >= 0 && tokens.max().item<std::int64_t>() < config.vocab,
      "the model's vocabulary has ids from 0 to ", config.vocab - 1);
  const at::NoGradGuard no_grad;
  RoutingContext context{.step = loaded.argument.step.value_or(0), .k = k};
  const std::int64_t length = tokens.size(1);
  const ModelOutput out =
      hidden_pass(model, {.tokens = tokens}, whole_segments(config, length), context);
  at::Tensor result = model.logits(out.hidden).reshape({tokens.size(0), length, -1});
  return ids.dim() == 1 ? result.squeeze(0) : result;
}

std::vector<TokenId> ids_of_text(const Loaded& loaded, const py::object& given) {
  const std::string text = text_of(given, "text");
  const WithoutGil released;
  const Tokenizer& tokenizer = loaded.text();
  std::vector<TokenId> out;
  if (const TokenId id = tokenizer.beginning_of_document(); id >= 0) out.push_back(id);
  tokenizer.encode(text, out);
  return out;
}

std::map<std::string, at::Tensor> trace(const Loaded& loaded,
                                        const std::vector<std::int64_t>& tokens) {
  const WithoutGil released;
  PENSTOCK_CHECK(loaded.model->config().moe_layers() > 0, loaded.argument.path,
                 ": is dense; it has no routers to trace. Upcycle it, or give an MoE");
  return analysis::trace_routing(*loaded.model, tokens);
}

/// @param given  keys of EvaluationOverrides
/// @param context  the length that stands for a given sequence_length of 0
EvaluationOverrides overrides_of(const py::dict& given, std::int64_t context) {
  auto out = read_config<EvaluationOverrides>(to_config(given, ""));
  if (given.contains("sequence_length") && out.keys.sequence_length == 0)
    out.keys.sequence_length = context;
  return out;
}

/// The loss on a corpus. Settings that are not given are those of the model's run.
py::object eval_corpus(const Loaded& loaded, const std::string& data, const py::dict& given) {
  const EvaluationOverrides overrides = overrides_of(given, loaded.model->config().context);
  const auto measured = [&] {
    const WithoutGil released;
    const Corpus corpus = Corpus::open(data);
    corpus.file().verify();
    check_same_tokenizer(loaded.text(), corpus);
    const Recipe* const run = loaded.run ? &*loaded.run : nullptr;
    const ModelConfig& config = loaded.model->config();
    EvaluateOptions how = evaluation_settings(config, run, overrides);
    how.context.step = loaded.argument.step.value_or(0);
    how.context.total_steps = run ? run->train.steps : 0;
    how.progress = [](double, const LossTotals&) { check_signals(); };
    const Evaluation evaluation = evaluate(*loaded.model, corpus, how);
    PENSTOCK_CHECK(std::isfinite(evaluation.total.nats), loaded.argument.path, ": the loss on ",
                   data, " is not finite");
    auto out = to_json(evaluation);
    out["split"] = split_name(how.split);
    out["sequence_length"] = how.sequence_length;
    out["max_tokens"] = how.max_tokens;
    return out;
  }();
  return to_python(measured);
}

/// The loss on a text, with the `ids` and `log_probabilities` of the scored tokens.
py::dict eval_text(const Loaded& loaded, const py::object& said, const py::dict& given,
                   const std::string& protocol) {
  const std::string text = text_of(said, "text");
  std::int64_t length = overrides_of(given, 0).keys.sequence_length;
  const ScoredText found = [&] {
    const WithoutGil released;
    if (length == 0) length = loaded.model->config().context;
    PENSTOCK_CHECK(length > 0, loaded.argument.path,
                   ": the model names no context length; give sequence_length");
    ScoredText out = score_text(*loaded.model, loaded.text(), text,
                                {.name = "the text",
                                 .length = length,
                                 .protocol = named_word<TextProtocol>(protocol, "protocol"),
                                 .progress = [](double, const LossTotals&) { check_signals(); }});
    PENSTOCK_CHECK(std::isfinite(out.totals.nats), loaded.argument.path,
                   ": the loss on the text is not finite");
    return out;
  }();
  std::vector<std::int64_t> ids;
  std::vector<double> scores;
  for (std::size_t w = 0; w < found.windows.size(); ++w) {
    const TokenSequence& window = found.windows[w];
    ids.insert(ids.end(), window.ids.begin() + window.first_scored, window.ids.end());
    scores.insert(scores.end(), found.scores[w].begin(), found.scores[w].end());
  }
  py::dict out;
  out["loss"] = found.totals.loss();
  out["perplexity"] = found.totals.perplexity();
  out["bits_per_byte"] = found.totals.bits_per_byte();
  out["tokens"] = found.totals.tokens;
  out["windows"] = found.windows.size();
  out["sequence_length"] = length;
  out["ids"] = at::tensor(ids);
  out["log_probabilities"] = at::tensor(scores, at::kDouble);
  return out;
}

std::vector<TokenId> ids_of(py::handle values, const std::string& name) {
  std::vector<TokenId> out;
  for (const py::handle id : values)
    out.push_back(
        static_cast<TokenId>(whole_number_of(id, name, 0, std::numeric_limits<TokenId>::max())));
  return out;
}

GenerateOptions generate_options(const py::dict& given) {
  GenerateOptions out;
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    if (name == "max_tokens") out.max_tokens = whole_number_of(value, name, 1);
    if (name == "samples") out.samples = whole_number_of(value, name, 1, 4096);
    if (name == "temperature") out.sampling.temperature = number_of(value, name);
    if (name == "top_k") out.sampling.top_k = whole_number_of(value, name, 0);
    if (name == "top_p") out.sampling.top_p = number_of(value, name);
    if (name == "min_p") out.sampling.min_p = number_of(value, name);
    if (name == "repetition_penalty") out.adjustments.repetition_penalty = number_of(value, name);
    if (name == "frequency_penalty") out.adjustments.frequency_penalty = number_of(value, name);
    if (name == "presence_penalty") out.adjustments.presence_penalty = number_of(value, name);
    if (name == "seed") out.sampling.seed = seed_of(value, name);
    if (name == "stop")
      for (const py::handle text : value) out.stop.push_back(text_of(text, name));
  }
  check(out.sampling);
  return out;
}

std::vector<Completion> generate_text(const Loaded& loaded, const py::list& prompts,
                                      const py::dict& options, const py::object& on_text) {
  GenerateOptions how = generate_options(options);
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> ids;
  for (const py::handle prompt : prompts)
    if (py::isinstance<py::str>(prompt))
      texts.push_back(text_of(prompt, "prompt"));
    else
      ids.push_back(ids_of(prompt, "prompt"));
  PENSTOCK_CHECK(texts.empty() || ids.empty(), "prompts are texts or ids, not both");
  GenerationListener listener{.interrupted = [] {
    check_signals();
    return false;
  }};
  if (!on_text.is_none())
    listener.text = [&](const Completion& text, std::string_view piece) {
      const WithGil gil;
      call_python(on_text, text.prompt, text.sample, decoded(piece));
    };
  const WithoutGil released;
  return ids.empty()
             ? generate(loaded.model, loaded.text(), texts, how, listener).completions
             : generate_from_tokens(loaded.model, loaded.text(), ids, how, listener).completions;
}

void add_completion(py::module_& module) {
  py::class_<Completion>(module, "Completion", "A generated text, without its prompt.")
      .def_readonly("prompt", &Completion::prompt)
      .def_readonly("sample", &Completion::sample)
      .def_readonly("tokens", &Completion::tokens)
      .def_property_readonly("text", [](const Completion& text) { return decoded(text.text); })
      .def_property_readonly("finish",
                             [](const Completion& text) { return std::string(name(text.finish)); })
      .def("__repr__", [](const Completion& text) {
        return py::str("Completion({!r}, {} tokens, finish={!r})")
            .format(decoded(text.text), text.tokens.size(), name(text.finish));
      });
}

}  // namespace

void add_models(py::module_& module) {
  add_completion(module);
  py::class_<Loaded, std::shared_ptr<Loaded>>(module, "Loaded")
      .def_property_readonly("path", [](const Loaded& loaded) { return loaded.argument.path; })
      .def_property_readonly("step", [](const Loaded& loaded) { return loaded.argument.step; })
      .def_property_readonly(
          "config",
          [](const Loaded& loaded) { return to_python(write_config(loaded.model->config())); })
      .def_property_readonly("parameters",
                             [](const Loaded& loaded) {
                               const auto counts = count_parameters(loaded.model->config());
                               return py::make_tuple(counts.total, counts.active);
                             })
      .def_property_readonly(
          "moe_layers", [](const Loaded& loaded) { return loaded.model->config().moe_layers(); })
      .def_property_readonly("causal",
                             [](const Loaded& loaded) { return loaded.model->config().causal(); })
      .def("logits", &logits, py::arg("ids"), py::arg("k"))
      .def("trace", &trace, py::arg("ids"))
      .def("eval_corpus", &eval_corpus, py::arg("data"), py::arg("options"))
      .def("eval_text", &eval_text, py::arg("text"), py::arg("options"), py::arg("protocol"))
      .def("generate", &generate_text, py::arg("prompts"), py::arg("options"), py::arg("on_text"))
      .def("encode", &ids_of_text, py::arg("text"))
      .def(
          "decode",
          [](const Loaded& loaded, const py::object& ids) {
            return decoded(loaded.text().decode(ids_of(ids, "ids")));
          },
          py::arg("ids"));
  module.def("load", &load, py::arg("path"), py::arg("tokenizer"), py::arg("fold"),
             py::arg("as_trained"));
}

}  // namespace penstock::python
