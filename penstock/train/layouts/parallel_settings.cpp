#include "penstock/train/layouts/parallel_settings.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/base/threads.h"
#include "penstock/models/model_place.h"
#include "penstock/train/step/objective.h"

namespace penstock {
namespace {

std::string counted(int processes) {
  return concat(processes, processes == 1 ? " process" : " processes");
}

std::string product_of(const ParallelConfig& parallel, bool with_expert) {
  std::string out = concat("data ", parallel.data, " x tensor ", parallel.tensor, " x pipeline ",
                           parallel.pipeline);
  return with_expert ? concat(out, " x expert ", parallel.expert) : out;
}

/// One of the groups `tensor` and `expert` has to contain the other. Then a rank that stops in a
/// step stops the same ranks of both groups.
void check_whole_experts(const dist::Layout& layout) {
  const int tensor = layout.tensor, ranks = layout.data * tensor, expert = layout.expert;
  const auto fits = [&](int e) { return ranks % e == 0 && (e % tensor == 0 || tensor % e == 0); };
  if (fits(expert)) return;
  int nearest = 1;
  for (int e = 1; e <= ranks; ++e)
    if (fits(e) && std::abs(e - expert) < std::abs(nearest - expert)) nearest = e;
  fail("parallel.expert = ", expert, " with parallel.whole_experts = true: it has to divide the ",
       ranks,
       " ranks of data x tensor, and be a divisor or a multiple of parallel.tensor = ", tensor,
       "; the nearest value that does is ", nearest);
}

constexpr std::int64_t kMostRanks = 1 << 20;

/// The product of some axes.
std::int64_t ranks_of(std::initializer_list<std::int64_t> axes) {
  std::int64_t out = 1;
  for (const std::int64_t axis : axes) {
    PENSTOCK_CHECK(out == 0 || axis <= kMostRanks / out,
                   "the axes of [parallel] multiply to more "
                   "than ",
                   kMostRanks, " ranks; make one of them smaller");
    out *= axis;
  }
  return out;
}

/// The layout whose axes multiply to the number of processes.
dist::Layout divided(const Recipe& recipe, int processes) {
  const ParallelConfig& parallel = recipe.parallel;
  dist::Layout out{.tensor = static_cast<int>(parallel.tensor),
                   .pipeline = static_cast<int>(parallel.pipeline),
                   .expert = static_cast<int>(parallel.expert),
                   .sequence = parallel.sequence,
                   .whole_experts = parallel.whole_experts && parallel.tensor > 1};
  const int others = out.tensor * out.pipeline;
  const std::int64_t within = ranks_of({parallel.data, parallel.tensor, parallel.pipeline}),
                     beside = ranks_of({within, parallel.expert});
  if (parallel.data > 0) {
    PENSTOCK_CHECK(
        processes == within || processes == beside, "[parallel] asks for ",
        product_of(parallel, false), " = ", within, " processes",
        parallel.expert > 1 ? concat(", or with experts on processes of their own ", beside) : "",
        ", but ", counted(processes), " ", processes == 1 ? "trains" : "train",
        "; start as many (`penstock train --processes ", within,
        "`), or leave parallel.data at 0, which takes as many as are started");
  }
  PENSTOCK_CHECK(processes % others == 0, counted(processes),
                 " cannot be divided by parallel.tensor x parallel.pipeline = ", others, "; start ",
                 std::max(1, processes / others) * others);
  out.data = processes / others;
  if (out.whole_experts) {
    check_whole_experts(out);
    return out;
  }
  PENSTOCK_CHECK(
      out.data % out.expert == 0, "parallel.expert = ", out.expert, " does not divide the ",
      out.data, " data-parallel ranks; the nearest value that does is ",
      nearest_divisor(std::gcd<std::int64_t>(out.data, recipe.model.total_experts()), out.expert),
      ", or start ", (out.data / out.expert + 1) * out.expert * others, " processes");
  return out;
}

void check_parts(const Recipe& recipe, const dist::Layout& layout) {
  const TrainConfig& train = recipe.train;
  const std::int64_t parts = train.batch_sequences / train.micro_batch;
  const std::int64_t fits = train.batch_sequences / layout.data;
  PENSTOCK_CHECK(
      layout.data <= parts, counted(layout.data),
      layout.ranks() == layout.data ? "" : " (or groups)",
      " share a step's micro-batches, and train.batch_sequences = ", train.batch_sequences,
      " with train.micro_batch = ", train.micro_batch, " makes ", parts, " of them; ",
      fits > 0 ? concat("set train.micro_batch to ", fits, fits == 1 ? "" : " or less",
                        " (balancing statistics are taken over a micro-batch, so this changes the "
                        "result), or start fewer processes")
               : "start fewer processes, or raise train.batch_sequences");
  PENSTOCK_CHECK(!layout.divides_experts() || parts % layout.data == 0,
                 layout.expert > 1 ? concat("parallel.expert = ", layout.expert)
                                   : "parallel.whole_experts = true",
                 ": ranks that share experts go through their micro-batches side by "
                 "side, and ",
                 parts, " are not a multiple of ", layout.data,
                 "; set train.batch_sequences or train.micro_batch so that they are");
}

void check_chunks(const Recipe& recipe, const dist::Layout& layout) {
  const std::int64_t chunks = recipe.parallel.pipeline_chunks;
  if (layout.pipeline == 1 || chunks == 1) return;
  const std::int64_t pieces = layout.pipeline * chunks;
  PENSTOCK_CHECK(recipe.model.layers >= pieces,
                 "parallel.pipeline x parallel.pipeline_chunks = ", pieces, " pieces of ",
                 recipe.model.layers, " layers; each needs one: set parallel.pipeline_chunks to ",
                 std::max<std::int64_t>(1, recipe.model.layers / layout.pipeline), " or less");
  const std::int64_t parts = recipe.train.batch_sequences / recipe.train.micro_batch;
  PENSTOCK_CHECK(parts % (layout.data * layout.pipeline) == 0,
                 "parallel.pipeline_chunks = ", chunks,
                 " takes micro-batches by groups of parallel.pipeline = ", layout.pipeline,
                 " on each data-parallel rank, and ", parts, " are not a multiple of ",
                 layout.data * layout.pipeline,
                 "; set train.batch_sequences or train.micro_batch so that they are, or "
                 "parallel.pipeline_chunks to 1");
}

/// Loads of a whole step are counted by a forward pass through the whole model before the step.
void check_pooled(const Recipe& recipe, const dist::Layout& layout) {
  const std::string part = part_that_pools(recipe.model);
  const bool stages = layout.pipeline > 1;
  PENSTOCK_CHECK(part.empty() || (!stages && recipe.parallel.zero < 3), "model.router.", part,
                 ".scope = \"global\" counts the loads of a step by a pass before it, for which ",
                 stages ? "parallel.pipeline" : "parallel.zero", " = ",
                 stages ? layout.pipeline : recipe.parallel.zero, " has no order; set ",
                 stages ? "that to 1" : "that to 2",
                 ", or scope to \"sequence\" or \"micro-batch\"");
}

/// Each part also has a pass with all experts. The order of a pipeline's messages and the order in
/// which layers are gathered do not contain this pass.
void check_distillation(const Recipe& recipe, const dist::Layout& layout) {
  if (training_objective(recipe.model.traits()).distillation == 0) return;
  const bool stages = layout.pipeline > 1;
  PENSTOCK_CHECK(!stages && recipe.parallel.zero < 3, "selector '",
                 resolve(recipe.model.router).selector,
                 "' learns from a pass with all experts, for which ",
                 stages ? "parallel.pipeline" : "parallel.zero", " = ",
                 stages ? layout.pipeline : recipe.parallel.zero, " has no order; set ",
                 stages ? "that to 1" : "that to 2", ", or the distillation's weight to 0");
}

void check_sequence(const Recipe& recipe) {
  const ParallelConfig& parallel = recipe.parallel;
  if (!parallel.sequence) return;
  PENSTOCK_CHECK(parallel.tensor > 1,
                 "parallel.sequence = true divides rows between the processes of parallel.tensor, "
                 "and that is 1; set parallel.tensor to 2 or more, or parallel.sequence to false");
  const TrainConfig& train = recipe.train;
  const std::int64_t rows = train.micro_batch * train.sequence_length;
  PENSTOCK_CHECK(rows % parallel.tensor == 0, "parallel.sequence = true: train.micro_batch x ",
                 "train.sequence_length = ", rows,
                 " rows are not a multiple of parallel.tensor = ", parallel.tensor,
                 "; set one of these so that they are, or parallel.sequence to ", "false");
}

/// A stage initialises only its own layers, but all ranks need the same state of balancers.
void check_start(const Recipe& recipe, const dist::Layout& layout) {
  PENSTOCK_CHECK(
      layout.pipeline == 1 || !recipe.model.traits().needs_matrix,
      "parallel.pipeline = ", layout.pipeline,
      ": model.router has a balancer that starts from the first weights of every layer's "
      "router, and a stage has its own layers' alone; set the balancer's start to "
      "\"dense\", or parallel.pipeline to 1");
}

/// Ranks that train apart each hold a whole model and their own moments. They share weights only
/// after outer steps, so validations and checkpoints have to be due after outer steps. (A signal
/// may save a checkpoint at any step.)
void check_local_steps(const Recipe& recipe) {
  const ParallelConfig& parallel = recipe.parallel;
  const std::int64_t steps = parallel.local_steps;
  if (steps == 1) return;
  const auto alone = [&](const char* key, std::int64_t value, std::int64_t usual,
                         const char* reason) {
    PENSTOCK_CHECK(value == usual, "parallel.local_steps = ", steps, " with parallel.", key, " = ",
                   value, ": ", reason, "; set parallel.", key, " to ", usual,
                   ", or parallel.local_steps to 1");
  };
  alone("zero", parallel.zero, 0,
        "processes that make their own steps have moments of their own, which none can keep for "
        "the others");
  const char* whole = "each process makes its own steps with a whole model";
  alone("tensor", parallel.tensor, 1, whole);
  alone("pipeline", parallel.pipeline, 1, whole);
  alone("expert", parallel.expert, 1, whole);
  const auto multiple = [&](const char* key, std::int64_t value) {
    const std::int64_t below = value / steps * steps;
    PENSTOCK_CHECK(value == below, "train.", key, " = ", value,
                   " is not a multiple of parallel.local_steps = ", steps,
                   ": processes share weights, to be measured and saved, after an outer step "
                   "alone; set it to ",
                   below > 0 ? concat(below, " or ") : "", below + steps);
  };
  multiple("steps", recipe.train.steps);
  multiple("eval_every", recipe.train.eval_every);
  multiple("checkpoint_every", recipe.train.checkpoint_every);
}

/// The length of a selector's segments has to divide the sequence length. The selector's option has
/// the name of the trait.
void check_segments(const Recipe& recipe) {
  if (recipe.model.moe_layers() == 0) return;
  const ResolvedRouter router = resolve(recipe.model.router);
  const std::int64_t segment = router.traits.segment_length, length = recipe.train.sequence_length;
  PENSTOCK_CHECK(length % segment == 0, "model.router.", router.selector,
                 ".segment_length = ", segment, " must divide train.sequence_length = ", length);
}

}  // namespace

dist::Layout layout_of(const Recipe& recipe, int processes) {
  check_local_steps(recipe);
  check_sequence(recipe);
  check_segments(recipe);
  const dist::Layout out = divided(recipe, processes);
  if (processes == 1) return out;
  check_divides(recipe.model, out);  // does not need the vocabulary, which the corpus may decide
  check_parts(recipe, out);
  check_chunks(recipe, out);
  check_pooled(recipe, out);
  check_distillation(recipe, out);
  check_start(recipe, out);
  PENSTOCK_CHECK(recipe.parallel.zero < 3 || out.pipeline == 1,
                 "parallel.zero = 3 gathers layers in the order of a whole model, and parallel.",
                 "pipeline = ", out.pipeline, " has another; set parallel.zero to 2");
  PENSTOCK_CHECK(recipe.run.on_cpu(), "run.device = '", recipe.run.device,
                 "': several processes train on the CPU only; start one");
  PENSTOCK_CHECK(recipe.train.gradient_sum != GradientOrder::in_turn,
                 "train.gradient_sum = \"in-turn\" is for one process; leave it out, or start one");
  return out;
}

int processes_of(const Recipe& recipe) {
  const ParallelConfig& parallel = recipe.parallel;
  const std::int64_t data = std::max<std::int64_t>(1, parallel.data);
  const std::int64_t within = parallel.whole_experts ? data * parallel.tensor : data;
  const std::int64_t beside = within % parallel.expert == 0 ? 1 : parallel.expert;
  return static_cast<int>(ranks_of({data, beside, parallel.tensor, parallel.pipeline}));
}

void choose_gradient_sum(Recipe& recipe, const Recipe* begun, int processes) {
  GradientOrder& order = recipe.train.gradient_sum;
  if (order != GradientOrder::automatic) return;
  const bool tree_before = begun && begun->train.gradient_sum == GradientOrder::tree;
  order = processes > 1 || tree_before ? GradientOrder::tree : GradientOrder::in_turn;
  if (begun && order == GradientOrder::tree && !tree_before)
    recipe.notes.push_back(
        "the run was begun with train.gradient_sum = \"in-turn\" and goes on with \"tree\": it "
        "ends otherwise than with one process, by rounding");
}

int threads_of_process(const Recipe& recipe, int processes_here) {
  if (recipe.run.threads > 0 || processes_here == 1) return static_cast<int>(recipe.run.threads);
  return std::max(1, physical_cores() / processes_here);
}

}  // namespace penstock
