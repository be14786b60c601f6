#include "tests/study/fixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/report/report.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_folder.h"

namespace penstock::study::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* const kDomains[] = {"c++ headers", "licences", "perl", "prose", "python"};

double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

// Sparsity starts near one half, dips, rises around step 85 and stays at the target.
double remoe_sparsity(double step, double target, double noise) {
  const double rise = 1 / (1 + std::exp(-(step - 85) / 7));
  const double start = 0.5 - 0.08 * (1 - std::exp(-step / 25));
  return start + (target - start) * rise + 0.004 * (noise - 0.5);
}

struct Maker {
  const FakeRun& run;
  double target;

  std::vector<double> load(std::uint64_t layer, std::uint64_t domain) const {
    std::vector<double> out;
    double sum = 0;
    for (std::int64_t e = 0; e < run.experts; ++e) {
      const double skew = run.method == "remoe" ? 1.6 : 0.5;
      out.push_back(std::exp(skew * uniform(run.seed, 100 + layer * 10 + domain, e)));
      sum += out.back();
    }
    for (double& value : out) value *= active(layer, domain) / sum;
    return out;
  }
  double active(std::uint64_t layer, std::uint64_t domain) const {
    if (run.method != "remoe") return 1;
    return 0.8 + 0.12 * static_cast<double>(layer) + 0.3 * (uniform(7, layer, domain) - 0.5);
  }
  json evaluation(double loss) const {
    json out = {{"loss", loss},
                {"perplexity", std::exp(loss)},
                {"bits_per_byte", loss / std::log(2.0) / 2.1},
                {"tokens", 100000}};
    for (std::uint64_t d = 0; d < std::size(kDomains); ++d)
      out["by_domain"][kDomains[d]] = {{"loss", loss + 0.2 * (uniform(3, d, 0) - 0.5)},
                                       {"bits_per_byte", loss / 1.4},
                                       {"tokens", 20000}};
    if (run.method == "dense") return out;
    for (std::int64_t l = 0; l < run.layers; ++l) {
      out["load"].push_back(load(l, 9));
      out["active_by_layer"].push_back(active(l, 9));
      for (std::uint64_t d = 0; d < std::size(kDomains); ++d) {
        out["load_by_domain"][kDomains[d]].push_back(load(l, d));
        out["active_by_layer_domain"][kDomains[d]].push_back(active(l, d));
      }
    }
    return out;
  }
  double loss_at(double step) const {
    return 2.1 + run.loss_offset + 3.3 * std::exp(-std::pow(step / 30, 0.55)) +
           0.004 * static_cast<double>(run.seed);
  }
};

}  // namespace

void write_text(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

namespace {

/// A line of metrics.jsonl. `lambda` is λ before the step, and is updated to λ after it.
json step_line(const FakeRun& run, const Maker& make, std::int64_t step, double& lambda) {
  const auto x = static_cast<double>(step);
  const double noise = uniform(run.seed, 1, step);
  const double speed = run.method == "dense" ? 9000 : 6500;
  json line = {{"step", step},
               {"loss", make.loss_at(x) + 0.12 * (noise - 0.5)},
               {"tokens_per_second", speed + 300 * noise},
               {"share_of_peak", (speed + 300 * noise) / 20000},
               {"seconds", 0.5 * x},
               {"learning_rate", 1e-3 * std::min(1.0, x / 20)},
               {"grad_norm", 0.4 + 2 / x},
               {"peak_bytes", run.method == "dense" ? 6.1e8 : 1.15e9}};
  double active = 1;
  if (run.method == "remoe") {
    line["sparsity"] = run.settles ? remoe_sparsity(x, make.target, noise) : 0.5;
    for (std::int64_t l = 0; l < run.layers; ++l)
      line["sparsity_by_layer"].push_back(line["sparsity"].get<double>() -
                                          0.001 * static_cast<double>(l) * noise);
    line["auxiliary_losses"]["adaptive-l1"] = 1e-4 * x;
    line["l_reg"] = 4 / x;
    active = static_cast<double>(run.experts) * (1 - line["sparsity"].get<double>());
    lambda = line["sparsity"] < make.target && step < 110
                 ? lambda * 1.2
                 : lambda * std::pow(1.2, noise < 0.49 ? -1 : 1);
    line["lambda"] = lambda;
  } else if (run.method == "topk") {
    line["sparsity"] = make.target;
    line["auxiliary_losses"]["load-balance"] = 0.01 + 0.001 * noise;
  }
  if (run.method != "dense")
    for (std::int64_t l = 0; l < run.layers; ++l) line["load"].push_back(make.load(l, 9));
  line["flops"] = 100 * active;
  if (run.method != "dense") line["active_experts"] = active;
  if (step % std::max<std::int64_t>(1, run.steps / 10) == 0)
    line["validation"] = make.evaluation(make.loss_at(x) + 0.03);
  return line;
}

json finished_json(const FakeRun& run, const Maker& make) {
  json finished = {{"steps", run.steps},
                   {"total_parameters", run.method == "dense" ? 4.9e6 : 3.1e7},
                   {"active_parameters", 4.9e6},
                   {"flops_per_token", 2.7e7},
                   {"validation", make.evaluation(make.loss_at(static_cast<double>(run.steps)))},
                   {"test", make.evaluation(make.loss_at(static_cast<double>(run.steps)) + 0.05)},
                   {"tokens_per_second", run.method == "dense" ? 9150 : 6650},
                   {"share_of_peak", run.method == "dense" ? 0.46 : 0.33},
                   {"peak_bytes", run.method == "dense" ? 6.1e8 : 1.15e9},
                   {"seconds", 0.5 * static_cast<double>(run.steps)},
                   {"peak_flops", 4.52e11},
                   {"machine", "a processor, 2 cores"}};
  finished["causal"] = run.causal;
  if (run.method == "remoe") finished["target_sparsity"] = make.target;
  for (const auto& finding : run.warnings)
    finished["warnings"].push_back(
        {{"step", 3}, {"name", "clipping"}, {"finding", finding}, {"remedy", "do less"}});
  return finished;
}

}  // namespace

void write_fake_run(const std::string& directory, const FakeRun& run) {
  const double target = 1 - 1.0 / static_cast<double>(run.experts);
  const Maker make{run, target};
  std::ostringstream metrics;
  double lambda = 1e-8;
  metrics << json{{"step", 0}, {"validation", make.evaluation(make.loss_at(0))}, {"seconds", 0.25}}
          << "\n";
  for (std::int64_t step = 1; step <= run.steps; ++step)
    metrics << step_line(run, make, step, lambda).dump() << "\n";
  write_text(directory + "/metrics.jsonl", metrics.str());
  if (!fs::exists(directory + "/config.toml"))
    write_text(directory + "/config.toml",
               "name = \"" + run.method +
                   "\"\n[data]\ncorpus = \"corpora/system\"\n[model]\n"
                   "d_model = 256\nlayers = 4\n[model.router]\nmethod = \"" +
                   run.method + "\"\n[train]\nseed = " + std::to_string(run.seed) +
                   "\nsteps = " + std::to_string(run.steps) +
                   "\nbatch_sequences = 8\nsequence_length = 256\nclip = 1.0\n");
  if (!run.finished) return;
  write_text(directory + "/finished.json", finished_json(run, make).dump());
}

/// The recipe's routing method; "continued" if the recipe begins with another model.
std::string method_of(const ConfigNode& recipe) {
  const ConfigNode* model = recipe.find("model");
  const ConfigNode* method = model ? model->find("router")->find("method") : nullptr;
  return method ? std::get<std::string>(method->value()) : "continued";
}

KFigures fake_point(const std::string& method, std::int64_t seed, std::int64_t k) {
  const double distance = k > 0 ? std::log2(static_cast<double>(k)) - 2 : 0;
  const auto x = static_cast<double>(seed);
  const double bits = (k > 0 ? 1 + 0.1 * distance * distance : 1.3) -
                      (method == "remoe" ? 0.2 : 0) + x / 100 +
                      (method == "topk" ? x * x / 1000 : 0);
  return {.k = k,
          .loss = bits * std::log(2.0),
          .perplexity = std::exp2(bits),
          .bits_per_byte = bits,
          .flops_per_token = 1e6 * (k > 0 ? 2 + static_cast<double>(k) : 18),
          .tokens_per_second = 1000,
          .peak_memory_bytes = 1e9};
}

namespace {

ModelConfig fake_model(const ConfigNode& recipe) {
  ModelConfig model;
  model.router.method = "dense";
  if (method_of(recipe) == "dense") return model;
  model.router.method = "topk";  // for remoe too: its made-up figures are by k
  model.moe.experts = 16;
  return model;
}

json fake_by_k(const std::string& method, const FinishedRun& run, const Work& work) {
  MeasuredK out{.checkpoint = run.checkpoint,
                .step = 300,
                .split = "test",
                .trained_k = method == "dense" ? 0.0 : 4.0};
  for (const auto k : work.asked["k"].get<std::vector<std::int64_t>>())
    out.points.push_back(fake_point(method, run.seed, k));
  return study::to_json(out);
}

json fake_routers(const std::string& method, const FinishedRun& run) {
  json out = {{"checkpoint", word(run.checkpoint)},
              {"split", "test"},
              {"tokens", 64},
              {"entropy", json::array()},
              {"samples", json::array()}};
  if (method == "dense") {
    out["refused"] = "a dense model has no routers";
    return out;
  }
  for (int layer = 0; layer < 2; ++layer)
    out["entropy"].push_back({{"mean", 1 + layer + static_cast<double>(run.seed) / 10},
                              {"sd", 0.25},
                              {"initial_mean", 2},
                              {"initial_sd", 0.5}});
  out["samples"].push_back(
      {{"context", "a <token>"}, {"probabilities", {{0.75, 0.25}, {0.1, 0.9}}}});
  return out;
}

/// Writes the files that `penstock finetune` would leave in its directory.
void write_fake_finetuning(const std::string& method, const FinishedRun& run, const Work& work) {
  json points = json::array();
  if (method == "dense")
    points.push_back({{"k", nullptr}, {"accuracy", 0.6}, {"macro_f1", 0.5}});
  else
    for (const int k : {8, 16})
      points.push_back({{"k", k},
                        {"accuracy", 0.5 + 0.01 * k + 0.001 * static_cast<double>(run.seed)},
                        {"macro_f1", 0.5}});
  write_text(
      work.directory + "/finetune.json",
      json{{"task", "sst2"}, {"test_texts", 100}, {"majority_accuracy", 0.51}, {"by_k", points}}
          .dump());
}

}  // namespace

std::optional<json> FakeTrainer::measure(const Measurement& one, const FinishedRun& run,
                                         const Work& work) {
  const std::string method = method_of(run.recipe);
  const std::string who = method + " " + std::to_string(run.seed);
  if (one.name() == "by_k") {
    measured.push_back(who + " " + std::string(word(run.checkpoint)) +
                       (work.asked["folded"] == true ? " folded" : ""));
    for (const auto& k : work.asked["k"]) measured.back() += " " + k.dump();
    return fake_by_k(method, run, work);
  }
  if (one.name() == "routers") {
    measured.push_back(who + " routers");
    return fake_routers(method, run);
  }
  if (one.name() != "finetuning") return one.measure(run, work, {});
  if (work.trains) {
    finetuned.push_back(who + " " + work.asked["task"].get<std::string>());
    if (static_cast<int>(finetuned.size()) - 1 == interrupt_finetune_at) return std::nullopt;
    write_fake_finetuning(method, run, work);
  }
  return read_kept_object(work.directory, "finetune.json");
}

StudyHooks FakeTrainer::hooks() {
  const auto text = [](const ConfigNode& node, const char* a, const char* b) {
    return node.find(a)->find(b);
  };
  return {.resolve =
              [](const ConfigNode& recipe) {
                PENSTOCK_CHECK(recipe.find("train") && recipe.find("train")->find("steps"),
                               "train.steps is missing");
                return recipe;
              },
          .model = fake_model,
          .corpus_hash = [this](const ConfigNode&) { return corpus; },
          .flops_per_step = [](const ConfigNode&) { return 100.0; },
          .ngram_baseline = [](const ConfigNode&, int order) { return 10.0 / order; },
          .begin =
              [this](const std::string& model, const ConfigNode& upcycle, const ConfigNode& recipe,
                     const std::string& directory) {
                PENSTOCK_CHECK(!recipe.find("model"), "the model says what [model] is");
                const ConfigNode* method = upcycle.empty() ? nullptr : upcycle.find("method");
                begun.push_back(fs::path(model).filename().string() + "|" +
                                (method ? std::get<std::string>(method->value()) : ""));
                fs::create_directories(directory);
              },
          .model_hash = [](const std::string& model) { return "hash of " + model; },
          .text_hash =
              [](const std::string& text) {
                PENSTOCK_CHECK(fs::exists(text), text, ": there is no such text");
                return read_text(text);
              },
          .train =
              [this, text](const ConfigNode& recipe, const std::string& directory) {
                FakeRun run;
                run.method = method_of(recipe);
                run.seed = std::get<std::int64_t>(text(recipe, "train", "seed")->value());
                run.steps = std::get<std::int64_t>(text(recipe, "train", "steps")->value());
                if (concat(run.method, " ", run.seed) == diverges)
                  throw DivergedError(directory + ": step 7 stopped: the loss is nan");
                run.loss_offset = run.method == "dense" ? 0 : run.method == "topk" ? -0.06 : -0.09;
                run.finished = static_cast<int>(trained.size()) != interrupt_at;
                trained.push_back(run.method + " " + std::to_string(run.seed) + " " +
                                  std::to_string(run.steps));
                write_text(directory + "/config.toml", to_toml(recipe));
                write_fake_run(directory, run);
                return run.finished;
              },
          .check = [](const Measurement&) {},
          .measure = [this](const Measurement& one, const FinishedRun& run,
                            const Work& work) { return measure(one, run, work); },
          .write_pages = report::write_study_pages,
          .write_run_page = [this](const std::string& directory) { pages.push_back(directory); }};
}

std::string write_fake_study(const std::string& folder) {
  for (const std::string method : {"dense", "topk", "remoe"})
    write_text(
        folder + "/" + method + ".toml",
        "name = \"" + method +
            "\"\n[model]\nd_model = 256\nlayers = 4\n[model.router]\nmethod = \"" + method +
            "\"\n[train]\nsteps = 300\n[run]\nthreads = 2\n[data]\ncorpus = \"corpora/system\"\n");
  const std::string path = folder + "/study.toml";
  write_text(path,
             "name = \"fake\"\n"
             "title = \"ReMoE, top-k and dense at the same active compute\"\n"
             "claim = \"Does a ReLU router reach a lower loss than top-1 at desk scale?\"\n"
             "base = \"dense.toml\"\n"
             "seeds = [1, 2, 3]\n"
             "[variants.dense]\n"
             "label = \"Dense\"\n"
             "[variants.topk]\n"
             "label = \"Top-1\"\n"
             "recipe = \"topk.toml\"\n"
             "[variants.topk-matched]\n"
             "label = \"Top-1, same FLOPs\"\n"
             "recipe = \"topk.toml\"\n"
             "match_compute = \"remoe\"\n"
             "[variants.remoe]\n"
             "label = \"ReMoE\"\n"
             "recipe = \"remoe.toml\"\n");
  return path;
}

}  // namespace penstock::study::testing
