// Makes a classifier from a pretrained model, and reads the classifier of a fine-tuning.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/finetune/classifier.h"
#include "penstock/finetune/config.h"
#include "penstock/finetune/k_points.h"

namespace penstock {

struct PretrainedClassifier {
  std::shared_ptr<Classifier> classifier;
  std::string model_hash;  ///< hash of the pretrained tensors: 16 hexadecimal digits
  TrainingK k;
};

/// Makes a classifier of the pretrained body and a new head.
/// @param words  size of a vocabulary that replaces the model's. The embedding (and language head)
///               is then drawn, N(0, model.init_std²); the other tensors are the pretrained ones.
/// Throws Error for a damaged folder, and for keys that do not fit the model (k, memory).
PretrainedClassifier pretrained_classifier(const std::string& directory,
                                           const FinetuneConfig& config, std::int64_t classes,
                                           std::optional<std::int64_t> words);

/// The config.json of a fine-tuned model: that of a model, with the classes under "penstock".
std::string classifier_config_json(const ModelConfig& config,
                                   const std::vector<std::string>& class_names);

struct SavedClassifier {
  std::shared_ptr<Classifier> classifier;  ///< in evaluation mode
  std::vector<std::string> class_names;
};

/// Reads a classifier. Throws Error for a folder that `penstock finetune` did not write.
SavedClassifier load_classifier(const std::string& directory);

}  // namespace penstock
