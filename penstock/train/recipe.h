// A training recipe, which is one TOML file: the keys of the model, the data, the training, the run
// and its processes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/data/corpus/sampling.h"
#include "penstock/models/model_config.h"
#include "penstock/train/evaluation_keys.h"
#include "penstock/train/training_basics.h"

namespace penstock {

/// One of several corpora that a run trains on.
struct CorpusShare {
  std::string path;
  double weight = 1;

  template <class V>
  void visit(V& v) {
    v("path", path, {.help = "corpus directory that `penstock data prepare` wrote"});
    v("weight", weight,
      {.help = "weight of this corpus in the mix: its share of the training sequences, relative to "
               "the other corpora"});
  }
};

struct DataConfig {
  std::string corpus;
  std::vector<CorpusShare> corpora;
  Sampling sampling = Sampling::kShuffled;
  bool isolate_documents = false;

  template <class V>
  void visit(V& v) {
    v("corpus", corpus,
      {.help = "corpus directory that `penstock data prepare` wrote; with corpora: the corpus of "
               "validation and test, by default the first of them"});
    v("corpora", corpora,
      {.help = "corpora to train on, mixed by weight: [{path = \"a\", weight = 3}, {path = \"b\", "
               "weight = 1}]; []: only corpus"});
    v("sampling", sampling,
      {.help = "shuffled: every window once an epoch; random: windows at uniform offsets; streams: "
               "each row of the batch reads its own part of the split in order and carries "
               "transformer-xl's memory along (the default of transformer-xl)"});
    v("isolate_documents", isolate_documents,
      {.help = "attention does not cross document borders"});
  }
  /// Clears the paths. Corpora may move, so recipes are compared by the hashes of their corpora's
  /// contents.
  void forget_places() {
    corpus = "";
    for (CorpusShare& share : corpora) share.path = "";
  }
};

enum class GradientOrder { automatic, in_turn, tree };
constexpr std::array<std::string_view, 3> words(GradientOrder) {
  return {"auto", "in-turn", "tree"};
}

/// Largest number of sequences of a step, and of tokens of a sequence. The limit keeps products of
/// the two with a model's sizes from overflowing.
inline constexpr int kMostOfABatch = 1 << 24;

struct TrainConfig : TrainingBasics {
  std::string init_from, init_hash;
  std::int64_t steps = 1000, batch_sequences = 16, sequence_length = 256, micro_batch = 0;
  GradientOrder gradient_sum = GradientOrder::automatic;
  std::int64_t checkpoint_every = 0;
  bool keep_best = true;
  bool recompute_experts = false;
  std::string memory_budget;
  std::int64_t eval_every = 0, eval_tokens = 65536;
  std::int64_t final_eval_tokens = 0;
  EvaluationKeys evaluation;  ///< eval_sequence_length, eval_streams, eval_memory
  std::int64_t eval_k = 0;

  template <class V>
  void visit(V& v) {
    v("init_from", init_from,
      {.help = "model to start from: a directory, a file or a run (its best checkpoint). The "
               "model's config replaces [model], which may only repeat it or change coefficients "
               "of its losses (model.router.z-loss.coefficient). \"\": random weights"});
    v("init_hash", init_hash,
      {.help = "hash of the initial model; filled in automatically, and checked if given"});
    v("steps", steps, {.help = "optimizer steps", .min = 1});
    v("batch_sequences", batch_sequences,
      {.help = "sequences per step", .min = 1, .max = kMostOfABatch});
    v("sequence_length", sequence_length,
      {.help = "tokens per sequence", .min = 1, .max = kMostOfABatch});
    v("micro_batch", micro_batch,
      {.help = "sequences per forward pass; part of the recipe, since balancing statistics are "
               "computed over it; 0: batch_sequences",
       .min = 0});
    visit_basics(v);
    v("gradient_sum", gradient_sum,
      {.help =
           "order in which the gradients of a step's micro-batches are added: in-turn (one "
           "process), tree (the same bits for any number of processes; holds a few more copies); "
           "auto: tree for several processes, or the order that the run started with"});
    v("checkpoint_every", checkpoint_every,
      {.help = "steps between checkpoints; 0: only at the end", .min = 0});
    v("keep_best", keep_best, {.help = "also keep the checkpoint with the lowest validation loss"});
    v("recompute_experts", recompute_experts,
      {.help = "recompute the inputs of the experts' activation in the backward pass instead of "
               "storing them: less memory, the same bits, two ninths more work in the experts"});
    v("memory_budget", memory_budget,
      {.help = "largest memory for training per process, as `penstock info` counts it: \"700 "
               "MiB\", \"12 GiB\". Layers and experts are recomputed in the backward pass so that "
               "the budget is met with the fewest extra FLOPs; the same bits. \"\": no limit"});
    v("eval_every", eval_every,
      {.help = "steps between validations; 0: only at the end", .min = 0});
    v("eval_tokens", eval_tokens,
      {.help = "tokens per validation during training; 0: the whole split", .min = 0});
    v("final_eval_tokens", final_eval_tokens,
      {.help = "tokens of the final validation; 0: the whole split", .min = 0});
    evaluation.visit_keys(v, "eval_",
                          {.sequence_length = "as sequence_length",
                           .streams = usual_streams_text(),
                           .memory = "model.transformer_xl.memory"});
    v("eval_k", eval_k,
      {.help = "experts per token (granularity applied) in validations during training, which "
               "select the best checkpoint; 0: model.router.k, the final k of its schedule",
       .min = 0});
  }
};

struct RunConfig {
  std::int64_t threads = 0;
  std::string device = "cpu";
  bool emulate_bf16 = false;
  bool tensorboard = true;
  bool report = true;
  bool background_checkpoints = true;

  bool on_cpu() const { return device == "cpu"; }

  template <class V>
  void visit(V& v) {
    v("threads", threads,
      {.help = "number of threads; 0: the number of physical cores", .min = 0, .max = 4096});
    v("device", device, {.help = "device: cpu, cuda or cuda:N"});
    v("emulate_bf16", emulate_bf16,
      {.help = "compute bf16 products with f32 instructions, on any processor; the same bits, "
               "several times slower than fp32, and slower still without fused multiply-adds; for "
               "train.precision = bf16"});
    v("tensorboard", tensorboard, {.help = "write TensorBoard event files"});
    v("report", report, {.help = "write report.html at the end"});
    v("background_checkpoints", background_checkpoints,
      {.help = "write checkpoints in the background from a copy of weights and moments; false, or "
               "if memory is too small for the copy: training waits"});
  }
};

struct ParallelConfig {
  std::int64_t data = 0, tensor = 1, pipeline = 1, pipeline_chunks = 1, expert = 1;
  std::int64_t zero = 0, timeout = 1800;
  bool sequence = false, whole_experts = false, overlap = true;
  std::int64_t local_steps = 1;
  double outer_lr = 0.7, outer_momentum = 0.9;

  template <class V>
  void visit(V& v) {
    v("data", data,
      {.help = "processes, or groups of processes, that share each step's micro-batches; 0: as "
               "many as were started",
       .min = 0,
       .max = 1 << 20});
    v("tensor", tensor,
      {.help = "processes that share each layer's attention heads and feed-forward neurons",
       .min = 1,
       .max = 1 << 16});
    v("sequence", sequence,
      {.help =
           "also divide the rows between products among the processes of `tensor`: residuals, "
           "norms and the head's rows are shared; the volume of exchanged rows stays the same"});
    v("pipeline", pipeline,
      {.help = "pipeline stages of consecutive layers, each with its own processes",
       .min = 1,
       .max = 10000});
    v("pipeline_chunks", pipeline_chunks,
      {.help = "chunks of consecutive layers per stage, assigned to the stages in turn: less "
               "waiting, more messages",
       .min = 1,
       .max = 10000});
    v("expert", expert,
      {.help = "processes that share each layer's experts; either a divisor of data, taken from "
               "its processes, or an axis of its own",
       .min = 1,
       .max = 65536});
    v("whole_experts", whole_experts,
      {.help = "divide the tokens of the experts, not each expert's neurons, among the processes "
               "of `tensor`; `expert` then divides data x tensor"});
    v("zero", zero,
      {.help = "state that processes with the same model divide instead of each keeping a copy: 0 "
               "nothing, 1 the optimizer's state, 2 gradients too, 3 the layers' weights too; the "
               "same bits",
       .min = 0,
       .max = 3});
    v("overlap", overlap,
      {.help = "overlap the exchange of gradients with the backward pass, and the exchange of "
               "tokens with the shared expert; the same bits"});
    v("local_steps", local_steps,
      {.help = "steps that each process makes with its own micro-batches and its own AdamW before "
               "an outer step combines the weights of all processes (DiLoCo); the result then "
               "depends on the number of processes; 1: gradients are exchanged in every step",
       .min = 1,
       .max = 1000000});
    v("outer_lr", outer_lr,
      {.help = "learning rate of the outer steps, for parallel.local_steps above 1", .min = 0});
    v("outer_momentum", outer_momentum,
      {.help = "Nesterov momentum of the outer steps", .min = 0, .max = 1});
    v("timeout", timeout,
      {.help = "seconds that a process waits for a late process before the run fails",
       .min = 1,
       .max = 1000000});
  }
};

struct Recipe {
  std::string name, description;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  RunConfig run;
  ParallelConfig parallel;
  /// Notes from reading the recipe, on effects that a user may not expect; not part of the recipe.
  std::vector<std::string> notes;

  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "short name, for reports"});
    v("description", description, {.help = "purpose of the recipe"});
    v("model", model);
    v("data", data);
    v("train", train);
    v("run", run);
    v("parallel", parallel);
  }
};

/// The recipe after every key that changes no bit of a result is reset to its default: name,
/// description, [run], [parallel] except the keys of ranks that train apart (local_steps, outer_lr,
/// outer_momentum), train.checkpoint_every, keep_last, keep_best, recompute_experts, memory_budget
/// and the path of the initial model. The initial model's content and the validations during
/// training are part of a result.
Recipe result_settings(Recipe recipe);

}  // namespace penstock
