// A training recipe: the model, the data, how to train, how to run. One TOML file.
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
    v("weight", weight, {.help = "its share of the training sequences, relative to the others'"});
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
      {.help = "corpus directory that `penstock data prepare` wrote; with corpora the one of "
               "validations and tests, the first of them unless it is given"});
    v("corpora", corpora,
      {.help = "corpora to train on, mixed by weight: [{path = \"a\", weight = 3}, {path = \"b\", "
               "weight = 1}]; []: the corpus"});
    v("sampling", sampling,
      {.help = "shuffled: every window once an epoch; random: windows at uniform offsets; streams: "
               "each row reads its own part of the split in order, and transformer-xl's memory "
               "goes along (its default)"});
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
      {.help = "model to continue from, a directory, a file or a run (its best checkpoint): its "
               "config takes the place of [model], which may only repeat it, or change "
               "coefficients of its losses (model.router.z-loss.coefficient); \"\": random "
               "weights"});
    v("init_hash", init_hash,
      {.help = "content of that model; filled in, and checked where it is given"});
    v("steps", steps, {.help = "optimizer steps", .min = 1});
    v("batch_sequences", batch_sequences, {.help = "sequences per step", .min = 1});
    v("sequence_length", sequence_length, {.help = "tokens per sequence", .min = 1});
    v("micro_batch", micro_batch,
      {.help = "sequences per forward pass; part of the recipe, since balancing statistics are "
               "taken over it; 0: the batch",
       .min = 0});
    visit_basics(v);
    v("gradient_sum", gradient_sum,
      {.help = "order in which the gradients of a step's micro-batches are added: in-turn (one "
               "process), tree (the same bits with any number of processes; holds some copies "
               "more); auto: tree with several processes, or as the run began"});
    v("checkpoint_every", checkpoint_every,
      {.help = "steps between checkpoints; 0: only at the end", .min = 0});
    v("keep_best", keep_best, {.help = "also keep the checkpoint of the lowest validation loss"});
    v("recompute_experts", recompute_experts,
      {.help = "compute what the experts' activation needs again in the backward pass instead of "
               "keeping it: less memory, the same bits, two ninths more work in the experts"});
    v("memory_budget", memory_budget,
      {.help = "most memory that training may take as `penstock info` counts it, of each process: "
               "\"700 MiB\", \"12 GiB\". What layers and experts compute again in the backward "
               "pass is chosen to fit, with the fewest FLOPs; the same bits. \"\": no limit"});
    v("eval_every", eval_every,
      {.help = "steps between validations; 0: only at the end", .min = 0});
    v("eval_tokens", eval_tokens,
      {.help = "tokens of a validation during training; 0: the whole split", .min = 0});
    v("final_eval_tokens", final_eval_tokens,
      {.help = "tokens of the last validation; 0: the whole split", .min = 0});
    evaluation.visit_keys(v, "eval_",
                          {.sequence_length = "as sequence_length",
                           .streams = usual_streams_text(),
                           .memory = "model.transformer_xl.memory"});
    v("eval_k", eval_k,
      {.help =
           "experts per token (granularity applied) in validations during training, which choose "
           "the best checkpoint; 0: model.router.k, where its schedule ends",
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
    v("threads", threads, {.help = "0: the physical cores", .min = 0, .max = 4096});
    v("device", device, {.help = "cpu, cuda or cuda:N"});
    v("emulate_bf16", emulate_bf16,
      {.help = "with train.precision = bf16: compute its products by f32 instructions, on any "
               "processor; the same bits, several times slower than fp32, and slower still without "
               "fused multiply-adds"});
    v("tensorboard", tensorboard, {.help = "write TensorBoard event files"});
    v("report", report, {.help = "write report.html at the end"});
    v("background_checkpoints", background_checkpoints,
      {.help = "write checkpoints while training goes on, from a copy of weights and moments; "
               "false, or where the copy does not fit into memory: training waits meanwhile"});
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
      {.help = "processes, or groups of them, that share each step's micro-batches; 0: as many as "
               "are started",
       .min = 0,
       .max = 1 << 20});
    v("tensor", tensor,
      {.help = "processes that share each layer's attention heads and feed-forward neurons",
       .min = 1,
       .max = 1 << 16});
    v("sequence", sequence,
      {.help = "the processes of `tensor` divide the rows between products, too: residuals, norms "
               "and the head's rows are shared, for the same exchange of rows"});
    v("pipeline", pipeline,
      {.help = "stages of consecutive layers, each with processes of its own",
       .min = 1,
       .max = 10000});
    v("pipeline_chunks", pipeline_chunks,
      {.help = "pieces of consecutive layers that each stage holds, dealt to the stages in turn: "
               "less waiting, more messages",
       .min = 1,
       .max = 10000});
    v("expert", expert,
      {.help = "processes that share each layer's experts; a divisor of data, which they are part "
               "of, or an axis of its own",
       .min = 1,
       .max = 65536});
    v("whole_experts", whole_experts,
      {.help = "processes of `tensor` divide the tokens that go to experts, and not each expert's "
               "neurons; `expert` then divides data x tensor"});
    v("zero", zero,
      {.help = "what processes that hold the same model divide instead of keeping it each: 0 "
               "nothing, 1 the optimizer's state, 2 gradients too, 3 the layers' weights too; the "
               "bits are the same",
       .min = 0,
       .max = 3});
    v("overlap", overlap,
      {.help = "exchange gradients while the backward pass goes on, and the rows of tokens while a "
               "shared expert is computed; the bits are the same"});
    v("local_steps", local_steps,
      {.help = "steps that each process makes with its own micro-batches and its own AdamW before "
               "all bring their weights together in an outer step (DiLoCo); the result then "
               "depends on the number of processes; 1: gradients are exchanged in every step",
       .min = 1,
       .max = 1000000});
    v("outer_lr", outer_lr,
      {.help = "learning rate of the outer steps, with parallel.local_steps above 1", .min = 0});
    v("outer_momentum", outer_momentum,
      {.help = "Nesterov momentum of the outer steps", .min = 0, .max = 1});
    v("timeout", timeout,
      {.help = "seconds that a process waits for one that is late before the run fails",
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
  /// Notes from reading the recipe that a user may not expect; no part of the recipe.
  std::vector<std::string> notes;

  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "short name, for reports"});
    v("description", description, {.help = "what the recipe is for"});
    v("model", model);
    v("data", data);
    v("train", train);
    v("run", run);
    v("parallel", parallel);
  }
};

/// The recipe with every key that changes no bit of a result at its default: name, description,
/// [run], [parallel] except the keys of ranks that train apart (local_steps, outer_lr,
/// outer_momentum), train.checkpoint_every, keep_last, keep_best, recompute_experts, memory_budget
/// and the path of the initial model. The initial model's content and the validations during
/// training are part of a result.
Recipe result_settings(Recipe recipe);

}  // namespace penstock
