// Measures a classifier's accuracy, F1 and loss on a set of texts.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/finetune/classifier.h"
#include "penstock/finetune/texts.h"

namespace penstock {

struct ClassificationScore {
  std::vector<std::vector<std::int64_t>> confusion;  ///< [true][predicted]
  double nats = 0;
  std::int64_t texts = 0;

  std::int64_t correct() const;
  double accuracy() const;  ///< share of texts whose class has the highest logit; 0 without texts
  double loss() const;      ///< cross-entropy, nats per text
  /// Mean over classes that occur or are predicted of 2·TP / (2·TP + FP + FN).
  double macro_f1() const;
};

struct ScoreOptions {
  /// Protocol "authors": the number of rows. Text i of the set is in row i modulo this number, and
  /// each row carries its memory from text to text. Texts that do not fill all rows are left out.
  /// 0: each text by itself.
  std::int64_t carried_rows = 0;
  std::int64_t memory_length = 0;
  std::int64_t k = 0;  ///< experts per token; 0: the model's own
  std::function<void(double done, const ClassificationScore& sofar)> progress;
};

/// Scores the texts in evaluation mode and restores the classifier's mode. Among equal logits the
/// lowest class is predicted.
ClassificationScore score(Classifier& classifier, const EncodedSet& set,
                          const ScoreOptions& options);

/// The texts' ids as [B, T] i64. REQUIRES: the texts have one length (asserted).
at::Tensor stack_texts(const EncodedSet& set, std::span<const std::size_t> texts);

}  // namespace penstock
