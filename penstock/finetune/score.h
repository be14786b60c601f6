// Measures how well a classifier does on a set of texts.
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
  double accuracy() const;  ///< share of texts whose class has the highest logit; 0 for none
  double loss() const;      ///< cross-entropy, nats per text
  /// Mean over classes that occur or are predicted of 2·TP / (2·TP + FP + FN).
  double macro_f1() const;
};

struct ScoreOptions {
  /// Protocol "authors": rows of so many texts in the set's order, each row's memory carried from
  /// text to text, what fills no batch left out. 0: each text by itself.
  std::int64_t carried_rows = 0;
  std::int64_t memory_length = 0;
  std::int64_t k = 0;  ///< experts per token; 0: the model's own
  std::function<void(double done, const ClassificationScore& sofar)> progress;
};

/// Puts the classifier into evaluation mode and back. Of equal logits the lower class counts.
ClassificationScore score(Classifier& classifier, const EncodedSet& set,
                          const ScoreOptions& options);

/// The texts' ids as [B, T] i64.  REQUIRES: one length.
at::Tensor stack_texts(const EncodedSet& set, std::span<const std::size_t> texts);

}  // namespace penstock
