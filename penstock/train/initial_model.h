// Prepares a training: the model before the first step, the vocabulary and tokenizer files from the
// corpus, and learning-rate scales of parameters. trainer.h makes the steps.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "penstock/data/corpus/corpus.h"
#include "penstock/models/language_model.h"
#include "penstock/optim/adamw.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// The model before the first step, on the CPU. Its parameters come from the recipe's seed, or from
/// the model of train.init_from.
/// REQUIRES: a vocabulary above 0.
/// @param place  the part of the model to make
std::shared_ptr<LanguageModel> initial_model(const Recipe& recipe, const ModelPlace& place = {});

/// The recipe; if it leaves model.vocab open, with the vocabulary size of the corpus. Throws Error
/// if model.vocab is too small for the corpus.
Recipe with_vocabulary(Recipe recipe, const Corpus& corpus);

/// The text files of a checkpoint besides config and weights, by name: the tokenizer's files. If
/// the model of train.init_from has the same tokenizer, also its chat template and
/// generation_config.json.
std::map<std::string, std::string> checkpoint_files(const Recipe& recipe, const Corpus& corpus);

/// A sentence if the model of train.init_from has no tokenizer that opens, so that nothing shows
/// whether its ids are the corpus's; otherwise "".
std::string initial_tokenizer_note(const Recipe& recipe);

/// Scale of the learning rate by parameter: model.router.lr_scale for the parameters that routers
/// train, 1 for the rest; null if all scales are 1.
LrScale router_lr_scale(const Recipe& recipe, LanguageModel& model);

}  // namespace penstock
