// Makes the three sets of a fine-tuning: for training, for the choice of a checkpoint, and for the
// test.
#pragma once

#include <string>

#include "penstock/data/classification/classification_data.h"
#include "penstock/finetune/config.h"

namespace penstock {

struct FinetuneSplits {
  ClassificationFormat task = ClassificationFormat::kAuto;  ///< the format that was found
  ClassificationSet train, selection, test;
  /// For reports: "the data set's own", or how the set was made.
  std::string selection_source, test_source;

  /// Hash of all texts and labels, in order: 16 hexadecimal digits.
  std::string hash() const;
};

/// Reads a data set in the format `task` and divides it. Clean: the test and selection sets are the
/// data set's own or shares of the training texts, and the division puts no text into two sets.
/// Authors: selection and test are both the development set. Throws Error if the sets' classes
/// differ, if a class of another set has no training text, and if a set would be empty.
FinetuneSplits load_finetune_splits(const std::string& path, ClassificationFormat task,
                                    const FinetuneConfig& config);

/// The test set of a data set, or all its texts if it has no test set.
ClassificationSet read_test_set(const std::string& path);

}  // namespace penstock
