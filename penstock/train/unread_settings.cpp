#include "penstock/train/unread_settings.h"

#include <algorithm>
#include <iterator>

#include "penstock/base/error.h"
#include "penstock/base/number_text.h"
#include "penstock/optim/schedule.h"
#include "penstock/routers/option_notes.h"

namespace penstock {
namespace {

/// "a.x = 1, a.y = 2": the fields directly in the table that differ from their defaults.
template <class Config>
std::string changed(const Config& config, const std::string& prefix) {
  const ConfigNode now = write_config(config), usual = write_config(Config());
  std::string out;
  for (const auto& [key, value] : now.table()) {
    if (value.is_table()) continue;
    ConfigNode holder, before;
    holder.set("v", value);
    if (const ConfigNode* other = usual.find(key)) before.set("v", *other);
    const std::string text = to_toml(holder);  // "v = 1\n"
    if (text == to_toml(before) || text.empty()) continue;
    out += concat(out.empty() ? "" : ", ", prefix, key, text.substr(1, text.size() - 2));
  }
  return out;
}

std::string comma_joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + ", " + b;
}

/// Changed fields of the router that matter for any parts. Options of parts are checked elsewhere.
std::string changed_of_router(const RouterConfig& router) {
  std::string out;
  const RouterConfig usual;
  const auto add = [&](const char* key, double value, double before) {
    if (value != before) out = comma_joined(out, concat("model.router.", key, " = ", value));
  };
  add("k", router.k, usual.k);
  add("init_std", router.init_std, usual.init_std);
  add("lr_scale", router.lr_scale, usual.lr_scale);
  return out;
}

class Unread {
 public:
  Unread(const Recipe& asked, const Recipe& complete) : asked_(asked), complete_(complete) {}

  std::vector<std::string> notes(bool by_hand) && {
    // With an initial model, [model] may only repeat that model's config.
    if (asked_.train.init_from.empty()) {
      look_at_experts();
      look_at_layers_with_experts();
      look_at_architecture();
      if (by_hand) look_at_router();
    }
    look_at_schedule();
    look_at_precision();
    look_at_evaluations();
    look_at_whole_experts();
    look_at_chunks();
    look_at_outer_steps();
    return std::move(notes_);
  }

 private:
  void say(const std::string& settings, const std::string& reason) {
    if (!settings.empty()) notes_.push_back(nothing_reads(settings, reason));
  }

  void look_at_experts() {
    if (complete_.model.moe_layers() > 0) return;
    say(comma_joined(changed(asked_.model.moe, "model.moe."),
                     changed_of_router(asked_.model.router)),
        concat("model.router.method = \"", asked_.model.router.method, "\" has no experts"));
    say(asked_.train.recompute_experts ? "train.recompute_experts = true" : "",
        "the model has no experts");
  }

  void look_at_layers_with_experts() {
    const ModelConfig& model = complete_.model;
    if (model.moe_layers() == 0) return;
    const std::int64_t first = model.moe.first_layers, every = model.moe.every;
    if (first > model.layers)
      say(concat("model.moe.first_layers = ", first),
          concat("the model has ", model.layers, " layers, which all count"));
    const std::int64_t counted =
        (first < 0 ? model.layers : std::min(first, model.layers)) - model.moe.dense_layers;
    if (every > 1 && every > counted)
      notes_.push_back(concat("model.moe.every = ", every, " reaches beyond the ", counted,
                              counted == 1 ? " layer" : " layers",
                              " that may have experts: only the first of them has any"));
  }

  void look_at_architecture() {
    const ModelConfig& model = asked_.model;
    if (!model.transformer_xl()) {
      say(changed(model.xl, "model.transformer_xl."),
          "model.architecture = \"decoder\"; those are for \"transformer-xl\"");
      return;
    }
    const ModelConfig usual;
    std::string rotary;
    if (model.rope_base != usual.rope_base)
      rotary = concat("model.rope_base = ", number_text(model.rope_base));
    if (model.rope_adjacent) rotary = comma_joined(rotary, "model.rope_adjacent = true");
    say(rotary, "transformer-xl has relative positions, not rotary ones");
    if (complete_.model.moe_layers() == complete_.model.layers && model.xl.ffn_block_dropout > 0)
      say(concat("model.transformer_xl.ffn_block_dropout = ", model.xl.ffn_block_dropout),
          "it is for layers without experts, and every layer has experts");
  }

  void look_at_router() {
    const ModelConfig& model = complete_.model;
    if (model.moe_layers() == 0) return;
    const RouterShape shape = router_shape(model.moe_options(0));
    std::ranges::copy(option_notes(asked_.model.router, shape, complete_.train.steps),
                      std::back_inserter(notes_));
  }

  void look_at_schedule() {
    const TrainConfig& train = complete_.train;
    const OptimizerConfig& optimizer = train.optimizer;
    if (asked_.train.optimizer.warmup_steps >= train.steps && train.steps > 1) {
      const double highest = learning_rate(optimizer, train.steps - 1, train.steps);
      notes_.push_back(concat("train.warmup_steps = ", optimizer.warmup_steps,
                              " is not below train.steps = ", train.steps,
                              ": the learning rate rises to ", highest,
                              " and never reaches train.lr = ", optimizer.lr));
    }
    if (asked_.train.optimizer.min_lr >= 0 && optimizer.min_lr != optimizer.lr / 10 &&
        (optimizer.lr_schedule == LrSchedule::constant ||
         optimizer.lr_schedule == LrSchedule::steps))
      say(concat("train.min_lr = ", optimizer.min_lr),
          concat("train.lr_schedule = \"", word(optimizer.lr_schedule), "\" does not end at it"));
  }

  void look_at_precision() {
    const bool fp32 = complete_.train.precision == ops::ProductPrecision::fp32;
    say(fp32 && complete_.run.emulate_bf16 ? "run.emulate_bf16 = true" : "",
        "train.precision = \"fp32\" has no products in bf16");
  }

  void look_at_evaluations() {
    const TrainConfig& train = asked_.train;
    const TrainConfig usual;
    if (train.eval_every > train.steps)
      notes_.push_back(
          concat("train.eval_every = ", train.eval_every, " is above train.steps = ", train.steps,
                 ": validation is made before the first step and after the last alone"));
    if (train.eval_every == 0) {
      std::string settings;
      if (train.eval_tokens != usual.eval_tokens)
        settings = concat("train.eval_tokens = ", train.eval_tokens);
      if (train.eval_k > 0)
        settings = comma_joined(settings, concat("train.eval_k = ", train.eval_k));
      say(settings, "train.eval_every = 0 leaves validations during training out");
    }
    if (train.evaluation.memory >= 0 &&
        (!complete_.model.has_memory() || complete_.train.evaluation.streams == 0))
      say(concat("train.eval_memory = ", train.evaluation.memory),
          "memory is carried by transformer-xl alone, along train.eval_streams above 0");
  }

  void look_at_whole_experts() {
    const ParallelConfig& parallel = asked_.parallel;
    if (!parallel.whole_experts) return;
    const bool none = complete_.model.moe_layers() == 0;
    say(none || parallel.tensor == 1 ? "parallel.whole_experts = true" : "",
        none ? "the model has no experts" : "parallel.tensor = 1 divides none");
  }

  void look_at_chunks() {
    const ParallelConfig& parallel = asked_.parallel;
    if (parallel.pipeline_chunks > 1 && parallel.pipeline == 1)
      say(concat("parallel.pipeline_chunks = ", parallel.pipeline_chunks),
          "parallel.pipeline = 1 has one stage");
  }

  void look_at_outer_steps() {
    const ParallelConfig& parallel = asked_.parallel;
    const ParallelConfig usual;
    if (parallel.local_steps > 1) {
      say(parallel.overlap ? "" : "parallel.overlap = false",
          concat("parallel.local_steps = ", parallel.local_steps, " exchanges no gradients"));
      return;
    }
    std::string settings;
    if (parallel.outer_lr != usual.outer_lr)
      settings = concat("parallel.outer_lr = ", parallel.outer_lr);
    if (parallel.outer_momentum != usual.outer_momentum)
      settings =
          comma_joined(settings, concat("parallel.outer_momentum = ", parallel.outer_momentum));
    say(settings, "parallel.local_steps = 1 makes no outer steps; set that to 2 or more for them");
  }

  const Recipe &asked_, &complete_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> unread_settings(const Recipe& asked, const Recipe& complete,
                                         bool by_hand) {
  return Unread(asked, complete).notes(by_hand);
}

}  // namespace penstock
