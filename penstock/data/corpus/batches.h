// Batches of a corpus, for training and for evaluation. Each batch is a pure function of the
// arguments, so resuming needs no state. Batches are vectors, not tensors: this code does not use
// torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/data/corpus/mixture.h"
#include "penstock/data/corpus/sampling.h"

namespace penstock {

/// Rows of input tokens and their target tokens. All vectors are [sequences, length], row-major.
struct Batch {
  std::int64_t sequences = 0, length = 0;
  /// Whether the rows begin new sequences; otherwise each row continues the same row of the
  /// previous batch.
  bool fresh = true;
  std::vector<std::int64_t> inputs;
  /// targets[i] is the token after inputs[i]; always a valid id.
  std::vector<std::int64_t> targets;
  /// For each input, the first position of its row that it may attend to. Empty if documents are
  /// not isolated, that is, if every input may attend to all earlier positions of its row.
  std::vector<std::int64_t> starts;
  /// The domain of the document that each target belongs to.
  std::vector<std::int32_t> domains;

  /// Rows [first, first + count).
  Batch slice(std::int64_t first, std::int64_t count) const;
};

struct TrainingOptions {
  std::int64_t sequence_length = 0;
  std::int64_t batch_sequences = 0;
  std::uint64_t seed = 0;
  Sampling sampling = Sampling::kShuffled;
  /// A token attends only to tokens of its own document (Batch::starts).
  bool isolate_documents = false;
};

/// The training splits of one corpus, or of several mixed by weight (MixtureOrder), as an endless
/// sequence of batches. Each corpus has epochs of its own. Thread-safe.
class TrainingBatches {
 public:
  /// REQUIRES: the corpora have the same vocabulary. Throws Error if a split is shorter than one
  /// window and its last target, and for streams of several corpora.
  TrainingBatches(const std::vector<WeightedCorpus>& corpora, const TrainingOptions& options);
  TrainingBatches(Corpus corpus, const TrainingOptions& options)
      : TrainingBatches({WeightedCorpus{.corpus = std::move(corpus)}}, options) {}

  const TrainingOptions& options() const { return options_; }
  /// Number of non-overlapping windows in the splits, or in the streams. For one corpus it is the
  /// number of sequences per epoch.
  std::int64_t windows() const;
  /// Names of the batches' domains. Domains of the same name in several corpora are one domain.
  const std::vector<std::string>& domains() const { return domains_; }
  std::int64_t tokens_per_step() const {
    return options_.batch_sequences * options_.sequence_length;
  }
  /// The batch of a step, counted from 0. An epoch may end within a batch, but not with streams:
  /// all streams end together, when less than a whole window is left, and start again.
  Batch batch(std::int64_t step) const;
  /// Rows [first_sequence, first_sequence + sequences) of the step's batch: a micro-batch.
  Batch batch(std::int64_t step, std::int64_t first_sequence, std::int64_t sequences) const;

 private:
  /// A corpus and its windows.
  struct Source {
    Corpus corpus;
    TokenFile::Range range;
    std::int64_t windows = 0;
    std::uint64_t seed = 0;             // of the order of its windows
    std::vector<std::int32_t> domains;  // [the corpus's domains]: index among the batches' domains
  };
  Source source_of(const Corpus& corpus, std::uint64_t seed);
  /// The token at which a source's sequence begins.
  std::int64_t offset(const Source& source, std::int64_t sequence) const;

  TrainingOptions options_;
  MixtureOrder order_;
  std::vector<std::string> domains_;
  std::vector<Source> sources_;
};

struct EvaluationOptions {
  std::int64_t sequence_length = 0;
  std::int64_t batch_sequences = 1;
  /// At most about this many targets, from evenly spaced windows; 0: all.
  std::int64_t max_tokens = 0;
  bool isolate_documents = false;
};

/// A split cut into contiguous windows. Each token except the split's first is a target exactly
/// once. A shorter last window has a batch of its own. Thread-safe.
class EvaluationWindows {
 public:
  /// Throws Error if the split has fewer than two tokens.
  EvaluationWindows(Corpus corpus, Split split, const EvaluationOptions& options);

  std::int64_t batches() const { return full_batches_ + (last_length_ > 0 ? 1 : 0); }
  Batch batch(std::int64_t index) const;
  /// Targets over all batches.
  std::int64_t tokens() const { return windows_ * options_.sequence_length + last_length_; }

 private:
  Corpus corpus_;
  EvaluationOptions options_;
  TokenFile::Range range_;
  std::int64_t split_windows_ = 0;  // full windows in the split
  std::int64_t windows_ = 0;        // the number of them that are used
  std::int64_t full_batches_ = 0, last_length_ = 0;
};

struct StreamOptions {
  std::int64_t sequence_length = 0;
  std::int64_t batch_sequences = 1;  ///< streams in a batch; the others follow when these end
  std::int64_t streams = 1;
  /// At most about this many targets, from the beginnings of the streams; 0: all.
  std::int64_t max_tokens = 0;
};

/// A split cut into streams of equal length. Each stream is read from beginning to end in
/// successive windows, of which only the last may be shorter. Each token is a target exactly once,
/// except the split's first and up to streams − 1 tokens at its end. A target and the tokens before
/// it do not depend on the batch size. Thread-safe.
class EvaluationStreams {
 public:
  /// Throws Error if the split has fewer targets than streams.
  EvaluationStreams(Corpus corpus, Split split, const StreamOptions& options);

  std::int64_t batches() const;
  /// Batch::fresh is set where a new group of streams begins.
  Batch batch(std::int64_t index) const;
  /// Targets over all batches.
  std::int64_t tokens() const { return options_.streams * scored_; }

 private:
  std::int64_t windows() const;

  Corpus corpus_;
  StreamOptions options_;
  TokenFile::Range range_;
  std::int64_t length_ = 0;  // targets of a stream
  std::int64_t scored_ = 0;  // the number of them that are used
};

}  // namespace penstock
