// The three sets of a fine-tuning: the texts to train on, to choose a checkpoint by, and to report.
#pragma once

#include <string>

#include "penstock/data/classification/classification_data.h"
#include "penstock/finetune/config.h"

namespace penstock {

struct FinetuneSplits {
  ClassificationFormat task = ClassificationFormat::kAuto;  ///< as it was found
  ClassificationSet train, selection, test;
  /// "the data set's own", or how it was made, for reports.
  std::string selection_source, test_source;

  /// Names all texts and labels, in order: 16 hexadecimal digits.
  std::string hash() const;
};

/// Reads a data set and divides it. Clean: test is the data set's, selection its own or a share of
/// the training texts, and no text is in two of them by that division. Authors: selection and test
/// are both the development set. `task`: what they are.
/// Throws Error where classes differ between the sets, where a class of the test has no training
/// text, and where a set would be empty.
FinetuneSplits load_finetune_splits(const std::string& path, ClassificationFormat task,
                                    const FinetuneConfig& config);

/// The test set of a data set, or all texts where it has no sets apart.
ClassificationSet read_test_set(const std::string& path);

}  // namespace penstock
