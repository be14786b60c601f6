// MODEL on a command line: a model of any format, or a run directory whose best checkpoint is
// meant.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "penstock/models/language_model.h"
#include "penstock/models/model_source.h"
#include "penstock/train/checkpoints/chosen_checkpoint.h"

namespace penstock {

/// The model that a command works on.
struct ModelArgument {
  std::string path;                  ///< what open_model_source takes
  std::optional<std::int64_t> step;  ///< of a checkpoint; none for a model from elsewhere
};

/// `path` where it is a checkpoint in one file or holds a config.json; otherwise the run's
/// checkpoint of the lowest validation loss, or its newest. Damaged checkpoints are passed over,
/// each with a line on stderr. Throws Error where there is neither, or none is whole.
ModelArgument model_argument(const std::string& path);

/// Says on stderr that the checkpoint went away while it was read.
void note_removed(const ModelArgument& model);

/// What `use` returns of the model at `path`, which it is to read whole: a run that still trains
/// may remove the checkpoint meanwhile, and then the choice is made again, with a line on stderr.
template <class Use>
auto with_model(const std::string& path, Use use) {
  return using_what_is_there([&] { return model_argument(path); }, use, note_removed);
}

/// How a model's weights are held: where its file has them (models/files/stored_model.h), the same
/// and multiplied with 8-bit activations where they are blocks of integers, or as f32, for whoever
/// changes them.
enum class Weights { in_place, in_place_int8, as_f32 };

std::shared_ptr<LanguageModel> load_for_inference(std::shared_ptr<const ModelSource> source,
                                                  Weights weights);

/// The source's model. @param as_trained  whether experts that choose tokens do so among all of a
/// pass, as in training (penstock/routers/as_trained.h)
std::shared_ptr<LanguageModel> load_for_evaluation(std::shared_ptr<const ModelSource> source,
                                                   bool as_trained, Weights weights);

}  // namespace penstock
