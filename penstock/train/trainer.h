// The training state of one run: model, data, and the engine that updates the model with the data,
// step by step (trainer.cpp), and the state as tensors of checkpoints (trainer_state.cpp).
// run_loop.cpp handles files, signals and progress.
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

class Trainer {
 public:
  /// Builds the model from the recipe's seed. A vocabulary of 0 becomes the corpus's.
  /// @param text  the result of open_text()
  /// @param mesh  the processes that share the steps. With several processes, or if the recipe says
  ///              so, gradients are added in a tree, whose bits are the same for any number of
  ///              data-parallel ranks. REQUIRES: its layout is layout_of(recipe).
  Trainer(const Recipe& recipe, RunText text, dist::Mesh mesh = {});

  /// Steps done so far.
  std::int64_t step() const { return engine_.step(); }
  /// The recipe, with the corpus's vocabulary if it left that open.
  const Recipe& recipe() const { return recipe_; }
  /// How the ranks divide the work.
  const dist::Layout& layout() const { return mesh_.layout; }
  /// This rank's part of the model.
  LanguageModel& model() const { return *model_; }
  /// The corpus that validations read.
  const Corpus& corpus() const { return text_.measured; }
  const RunText& text() const { return text_; }

  /// Makes one optimizer step, and then updates the balancers' shared state. If `watch` throws, the
  /// exception is passed on and the state is that of the step before.
  StepOutcome advance(const StepWatch& watch = {});
  /// Routing context of the current step.
  RoutingContext context() const;
  /// Gathers the whole present model on rank 0 for evaluate(). Every rank calls it. If ranks hold
  /// parts, rank 0 needs memory for another copy of all weights until let_go_of_whole().
  void gather_whole();
  void let_go_of_whole() { whole_.reset(); }
  /// Evaluates a split at the current step, with k experts per token; 0: the model's own number, at
  /// the end of its schedule. Call it on rank 0, after gather_whole().
  Evaluation evaluate(Split split, std::int64_t max_tokens,
                      const std::function<void(double, const LossTotals&)>& progress = {},
                      std::int64_t k = 0);

  /// The model's tensors under their file names, on rank 0; they may alias the live state. Every
  /// rank calls it.
  std::map<std::string, at::Tensor> model_tensors();
  /// The rest of the state that resuming needs, on rank 0: moments, which may alias the live state,
  /// and the memory of all ranks' parts. Every rank calls it. Throws if weights that ranks have in
  /// common are not equal.
  std::map<std::string, at::Tensor> optimizer_tensors();
  /// Whether ranks divide the state, so that each rank can write a piece of a checkpoint.
  bool divides_checkpoints() const;
  /// This rank's piece of a checkpoint, which may alias the live state. Every rank calls it. Throws
  /// if weights that ranks have in common are not equal.
  CheckpointShare checkpoint_share();
  /// The tensors of checkpoint_share() that alias the live state. Makes no exchange.
  CheckpointShare own_share();
  /// Bytes of the largest piece of any rank of this rank's stage. REQUIRES: divides_checkpoints().
  std::int64_t largest_share_bytes();
  /// Like restore(), but every rank passes all tensors, which it reads from the same files, and
  /// copies those that it holds. Rank 0's step is used. REQUIRES: ranks do not train apart.
  void restore_from_files(std::int64_t step, const std::map<std::string, at::Tensor>& model,
                          const std::map<std::string, at::Tensor>& optimizer,
                          const std::string& where);
  /// Continues from the contents of a checkpoint. Every rank calls it; only rank 0's arguments are
  /// read.
  void restore(std::int64_t step, const std::map<std::string, at::Tensor>& model,
               const std::map<std::string, at::Tensor>& optimizer, const std::string& where);

 private:
  GradientSharing gradient_sharing() const;
  void check_weights();
  const std::vector<TensorShare>& shares();
  HeldState held_state();
  void restore_whole(const std::map<std::string, at::Tensor>& model, const std::string& where);
  void start_prefetch();
  /// The micro-batches of a step that this rank computes.
  PartRange own_parts() const;
  /// The number of micro-batches of a step.
  std::size_t parts() const;

  Recipe recipe_;
  RunText text_;
  dist::Mesh mesh_;
  std::shared_ptr<LanguageModel> model_;
  ModelExchange exchange_;
  StepEngine engine_;
  std::shared_ptr<LanguageModel> whole_;  // on rank 0, where model_ is a part
  std::vector<TensorShare> shares_;       // of this rank's stage, made at first use
  std::shared_ptr<const TrainingBatches> batches_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

}  // namespace penstock
