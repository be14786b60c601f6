// The training state of one run, step by step: model, data, and the engine that updates the one by
// the other. Files, signals and progress are run_loop.cpp's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/data/corpus/prefetcher.h"
#include "penstock/dist/mesh.h"
#include "penstock/eval/perplexity.h"
#include "penstock/models/language_model.h"
#include "penstock/train/checkpoints/share_exchange.h"
#include "penstock/train/ranks/gradient_tree.h"
#include "penstock/train/ranks/model_exchange.h"
#include "penstock/train/recipe.h"
#include "penstock/train/run_text.h"
#include "penstock/train/step/step.h"

namespace penstock {

/// The model before the first step, on the CPU: its parameters come from the recipe's seed, or from
/// the model that it starts from.
/// REQUIRES: a vocabulary above 0.
/// @param place  the part of it that is wanted
std::shared_ptr<LanguageModel> initial_model(const Recipe& recipe, const ModelPlace& place = {});

/// model.router.lr_scale for what routers train, 1 for the rest; null where it is 1 everywhere.
LrScale router_lr_scale(const Recipe& recipe, LanguageModel& model);

/// The recipe with the corpus's vocabulary where it leaves that open. Throws Error where its own is
/// too small.
Recipe with_vocabulary(Recipe recipe, const Corpus& corpus);

class Trainer {
 public:
  /// Builds the model from the recipe's seed. A vocabulary of 0 becomes the corpus's.
  /// @param mesh  the processes that share the steps; with several, and where the recipe says so,
  ///              gradients are added in a tree, whose bits are the same for any number of
  ///              data-parallel ranks. REQUIRES: of layout_of(recipe).
  /// @param text  as open_text() gives it
  Trainer(const Recipe& recipe, RunText text, dist::Mesh mesh = {});

  /// Steps done so far.
  std::int64_t step() const { return engine_.step(); }
  /// With the corpus's vocabulary where the recipe left it open.
  const Recipe& recipe() const { return recipe_; }
  /// This rank's part of it.
  LanguageModel& model() const { return *model_; }
  /// The corpus that validations read.
  const Corpus& corpus() const { return text_.measured; }
  const RunText& text() const { return text_; }

  /// One optimizer step; balancers' shared state moves after it. What `watch` throws on the way is
  /// passed on, and the state is that of the step before.
  StepOutcome advance(const StepWatch& watch = {});
  /// Routing context of the current step.
  RoutingContext context() const;
  /// Has rank 0 hold the whole model, as it is now, for evaluate(). Every rank calls it. Where
  /// ranks hold parts, this costs rank 0 all weights once more, until let_go_of_whole().
  void gather_whole();
  void let_go_of_whole() { whole_.reset(); }
  /// Validation (or another split) at the current step, with k experts per token; 0: with the
  /// model's own, where the schedule of k ends. On rank 0, after gather_whole().
  Evaluation evaluate(Split split, std::int64_t max_tokens,
                      const std::function<void(double, const LossTotals&)>& progress = {},
                      std::int64_t k = 0);

  /// The model's tensors under their file names, on rank 0; they may alias the live state. Every
  /// rank calls it.
  std::map<std::string, at::Tensor> model_tensors();
  /// What else resuming needs, on rank 0: moments, which may alias the live state, and the memory
  /// of the parts of all ranks. Every rank calls it. Throws where weights that ranks have in common
  /// are not equal.
  std::map<std::string, at::Tensor> optimizer_tensors();
  /// Whether the state is divided, so that each rank can write a piece of a checkpoint.
  bool divides_checkpoints() const;
  /// This rank's piece, which may alias the live state. Every rank calls it. Throws where weights
  /// that ranks have in common are not equal.
  CheckpointShare checkpoint_share();
  /// What of it aliases the live state, without an exchange.
  CheckpointShare own_share();
  /// Bytes of the largest piece of any rank of this rank's stage. REQUIRES: divides_checkpoints().
  std::int64_t largest_share_bytes();
  /// As restore(), but every rank gives all tensors, which it sees in the same files, and reads
  /// what it holds; the step is rank 0's. Not where ranks train apart.
  void restore_from_files(std::int64_t step, const std::map<std::string, at::Tensor>& model,
                          const std::map<std::string, at::Tensor>& optimizer,
                          const std::string& where);
  /// Continues from what a checkpoint held. Every rank calls it; what rank 0 gives counts.
  void restore(std::int64_t step, const std::map<std::string, at::Tensor>& model,
               const std::map<std::string, at::Tensor>& optimizer, const std::string& where);

 private:
  GradientSharing gradient_sharing() const;
  std::string part_text() const;
  const std::vector<TensorShare>& shares();
  HeldState held_state();
  void restore_whole(const std::map<std::string, at::Tensor>& model, const std::string& where);
  void start_prefetch();
  /// The micro-batches of this rank, and of a step.
  PartRange own_parts() const;
  std::size_t parts() const;

  Recipe recipe_;
  RunText text_;
  dist::Mesh mesh_;
  std::shared_ptr<LanguageModel> model_;
  ModelExchange exchange_;
  StepEngine engine_;
  std::shared_ptr<LanguageModel> whole_;  // where model_ is a part
  std::vector<TensorShare> shares_;       // of this rank's stage, once asked for
  std::shared_ptr<const TrainingBatches> batches_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

}  // namespace penstock
