// MODEL on a command line: a model of any format, or a run directory, which stands for the run's
// best checkpoint.
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
  std::string path;                  ///< a path for open_model_source()
  std::optional<std::int64_t> step;  ///< the step of a run's checkpoint; none for other models
};

/// Finds the model that `path` names. It is `path` itself if that is a checkpoint in one file or
/// holds a config.json. Otherwise it is the run's checkpoint with the lowest validation loss, or
/// the run's newest. Damaged checkpoints are skipped, each with a line on stderr. Throws Error if
/// there is no model and no run, or if every checkpoint is damaged.
ModelArgument model_argument(const std::string& path);

/// Prints on stderr that the checkpoint was removed while it was read.
void note_removed(const ModelArgument& model);

/// Calls `use` with the model at `path` and returns its result. `use` must read the whole model. If
/// a run that still trains removes the checkpoint meanwhile, it chooses a checkpoint again and
/// prints a line on stderr.
template <class Use>
auto with_model(const std::string& path, Use use) {
  return using_what_is_there([&] { return model_argument(path); }, use, note_removed);
}

/// The form of a model's weights. `in_place`: read from the mapped file
/// (models/files/stored_model.h). `in_place_int8`: the same, and weights that are blocks of
/// integers are multiplied with 8-bit activations. `as_f32`: f32 copies, which can be changed.
enum class Weights { in_place, in_place_int8, as_f32 };

std::shared_ptr<LanguageModel> load_for_inference(std::shared_ptr<const ModelSource> source,
                                                  Weights weights);

/// Loads the source's model.
/// @param as_trained  whether experts that choose tokens choose among all tokens of a pass, as in
///                    training (penstock/routers/as_trained.h)
std::shared_ptr<LanguageModel> load_for_evaluation(std::shared_ptr<const ModelSource> source,
                                                   bool as_trained, Weights weights);

}  // namespace penstock
