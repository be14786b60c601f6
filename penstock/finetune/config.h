// The config of a fine-tuning for classification: all keys of `penstock finetune --set`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/train/training_basics.h"

namespace penstock {

enum class FinetuneProtocol { clean, authors };
constexpr std::array<std::string_view, 2> words(FinetuneProtocol) { return {"clean", "authors"}; }

/// Source: HyperRouter (arXiv:2312.07035), appendix C.3 and Table A2: length 512, batch 16, Adam
/// 1e-4, three epochs. Protocol "authors" follows the authors' code. That code tests on the set by
/// which it selects, and lets one text see another; protocol "clean" does neither
/// (docs/finetune.md).
struct FinetuneConfig : TrainingBasics {
  FinetuneConfig()
      : TrainingBasics{.optimizer = {.lr = 1e-4,
                                     .min_lr = 0,
                                     .warmup_steps = 0,
                                     .weight_decay = 0,
                                     .clip = 0.25},
                       .keep_last = 1} {}

  FinetuneProtocol protocol = FinetuneProtocol::clean;
  std::int64_t sequence_length = 0, batch = 16;
  double epochs = 3;
  std::int64_t steps = -1;
  bool emulate_bf16 = false;
  double dropout = 0.1, init_std = 0.02;
  std::int64_t length_pool = 50;
  double selection_share = 0.05, test_share = 0.1;
  std::int64_t eval_every = -1;
  std::int64_t train_k = 0, selection_k = 0;
  std::vector<std::int64_t> test_k;
  bool auxiliary_losses = true;
  std::optional<bool> train_hypernetwork;
  std::int64_t train_memory = -1, eval_memory = -1;
  std::int64_t most_train = 0, most_test = 0;

  template <class V>
  void visit(V& v) {
    visit_training(v);
    visit_texts(v);
    visit_routing(v);
  }

  bool authors() const { return protocol == FinetuneProtocol::authors; }

 private:
  /// Steps, optimizer and head.
  template <class V>
  void visit_training(V& v) {
    v("protocol", protocol,
      {.help = "clean: the model's tokenizer, a selection set apart from the test set, independent "
               "texts; authors: as in HyperRouter's scripts, a vocabulary built from the texts, "
               "memory carried between batches, one set for both selection and test"});
    v("sequence_length", sequence_length,
      {.help = "longest text in tokens, including its border tokens; 0: 512, or the model's "
               "sequence length in pretraining where that is shorter",
       .min = 0,
       .max = 1 << 20});
    v("batch", batch, {.help = "texts per step", .min = 1, .max = 1 << 16});
    v("epochs", epochs, {.help = "passes over the training texts", .min = 0, .max = 10000});
    v("steps", steps,
      {.help = "number of steps; 0: as many as epochs gives; -1: 5000 (authors), else as many as "
               "epochs gives",
       .min = -1});
    visit_basics(v);
    v("emulate_bf16", emulate_bf16,
      {.help = "compute bf16 products on a processor without AVX512-BF16: the same bits, slowly; "
               "for precision = bf16"});
    v("dropout", dropout, {.help = "dropout between the head's two layers", .min = 0, .max = 0.99});
    v("init_std", init_std, {.help = "standard deviation of the head's matrices", .min = 0});
  }
  /// The texts for training, selection and test, and the steps of evaluations.
  template <class V>
  void visit_texts(V& v) {
    v("length_pool", length_pool,
      {.help = "batches drawn together and sorted by length, so that a batch has texts of similar "
               "length; 1: batches of random texts",
       .min = 1});
    v("selection_share", selection_share,
      {.help = "share of the training texts held out to select the best checkpoint, where the data "
               "set has no validation set",
       .min = 0,
       .max = 0.9});
    v("test_share", test_share,
      {.help = "share of the texts held out for the test, where the data set has no test set",
       .min = 0,
       .max = 0.9});
    v("eval_every", eval_every,
      {.help = "steps between evaluations on the selection set; 0: only at the end; -1: 500 "
               "(authors), else a tenth of the run",
       .min = -1});
  }
  /// Experts per token, the router's training, the carried memory, and the numbers of texts.
  template <class V>
  void visit_routing(V& v) {
    v("train_k", train_k,
      {.help = "experts per token (granularity applied) in training, without a schedule; 0: all, "
               "or the selector's maximum; -1: the model's k",
       .min = -1});
    v("selection_k", selection_k,
      {.help = "experts per token on the selection set; 0: train_k", .min = 0});
    v("test_k", test_k,
      {.help = "experts per token in the test, with one accuracy each; none: powers of two and all",
       .min = 1});
    v("auxiliary_losses", auxiliary_losses,
      {.help = "keep the losses and updates of the router's balancers"});
    v("train_hypernetwork", train_hypernetwork,
      {.help = "also train HyperRouter's hypernetwork; not set: true only with protocol authors"});
    v("train_memory", train_memory,
      {.help = "memory positions carried from batch to batch in training (protocol authors); -1: "
               "128 with authors, else 0",
       .min = -1});
    v("eval_memory", eval_memory,
      {.help = "memory positions carried from batch to batch in evaluation; -1: 512 with authors, "
               "else 0",
       .min = -1});
    v("most_train", most_train,
      {.help = "largest number of training texts, drawn with the seed; 0: all", .min = 0});
    v("most_test", most_test,
      {.help = "largest number of test texts, drawn with the seed; 0: all", .min = 0});
  }
};

/// Reads the keys and fills in those that the protocol decides. Throws Error naming a key that is
/// unknown, out of range, or does not fit the protocol.
FinetuneConfig read_finetune_config(const ConfigNode& node);

}  // namespace penstock
