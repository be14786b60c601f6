// Cutting windows out of a token file.
#include "penstock/data/batches.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

// Streams of random draws under the data seed: one for random offsets, and one per epoch beyond it.
constexpr std::uint64_t kOffsetStream = 0;
constexpr std::uint64_t kEpochStream = 1;

/// Adds the window whose first input is token `begin` to the batch.
void append_window(const TokenFile& file, std::int64_t begin, bool isolate, Batch& batch) {
  const auto length = static_cast<std::size_t>(batch.length);
  std::vector<std::int64_t> tokens(length + 1);
  file.read(begin, tokens);
  batch.inputs.insert(batch.inputs.end(), tokens.begin(), tokens.end() - 1);
  batch.targets.insert(batch.targets.end(), tokens.begin() + 1, tokens.end());
  const auto documents = file.documents();
  std::size_t document = file.document_at(begin);
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < batch.length; ++i) {
    if (isolate) batch.starts.push_back(start);
    const auto target = static_cast<std::uint64_t>(begin + i + 1);
    if (target == documents[document].begin + documents[document].tokens) {
      ++document;
      start = i + 1;
    }
    batch.domains.push_back(static_cast<std::int32_t>(documents[document].domain));
  }
}

Batch empty_batch(std::int64_t sequences, std::int64_t length, bool isolate) {
  Batch batch{.sequences = sequences, .length = length};
  const auto size = static_cast<std::size_t>(sequences * length);
  batch.inputs.reserve(size);
  batch.targets.reserve(size);
  batch.domains.reserve(size);
  if (isolate) batch.starts.reserve(size);
  return batch;
}

void check_sizes(std::int64_t sequence_length, std::int64_t batch_sequences) {
  PENSTOCK_CHECK(sequence_length > 0 && batch_sequences > 0,
                 "a batch needs at least one sequence of at least one token; got ", batch_sequences,
                 " of ", sequence_length);
}

}  // namespace

Batch Batch::slice(std::int64_t first, std::int64_t count) const {
  PENSTOCK_ASSERT(first >= 0 && count >= 0 && first + count <= sequences);
  const auto rows = [&](const auto& all) {
    if (all.empty()) return all;
    return std::decay_t<decltype(all)>(all.begin() + first * length,
                                       all.begin() + (first + count) * length);
  };
  return {.sequences = count,
          .length = length,
          .fresh = fresh,
          .inputs = rows(inputs),
          .targets = rows(targets),
          .starts = rows(starts),
          .domains = rows(domains)};
}

TrainingBatches::TrainingBatches(Corpus corpus, const TrainingOptions& options)
    : corpus_(std::move(corpus)), options_(options), range_(corpus_.file().range(Split::kTrain)) {
  check_sizes(options_.sequence_length, options_.batch_sequences);
  PENSTOCK_CHECK(range_.tokens > options_.sequence_length, "the train split of '", corpus_.path(),
                 "' has ", range_.tokens, " tokens, too few for sequences of ",
                 options_.sequence_length, "; prepare more text or shorten train.sequence_length");
  windows_ = (range_.tokens - 1) / options_.sequence_length;
  if (options_.sampling != Sampling::kStreams) return;
  // Streams of equal length; what is left over, at most a window each, is not read.
  windows_ = (range_.tokens - 1) / options_.batch_sequences / options_.sequence_length *
             options_.batch_sequences;
  PENSTOCK_CHECK(windows_ > 0, "the train split of '", corpus_.path(), "' has ", range_.tokens,
                 " tokens, too few for ", options_.batch_sequences, " streams of windows of ",
                 options_.sequence_length,
                 "; prepare more text or lower train.batch_sequences or train.sequence_length");
}

std::int64_t TrainingBatches::offset(std::int64_t sequence) const {
  const auto index = static_cast<std::uint64_t>(sequence);
  if (options_.sampling == Sampling::kRandom) {
    // The last start still has a target after its last input.
    const auto starts = static_cast<std::uint64_t>(range_.tokens - options_.sequence_length);
    const auto bits = random_bits(options_.seed, kOffsetStream, index);
    return range_.begin + static_cast<std::int64_t>(random_below(bits, starts));
  }
  if (options_.sampling == Sampling::kStreams) {
    const std::int64_t rows = options_.batch_sequences, row = sequence % rows;
    const std::int64_t stream = (range_.tokens - 1) / rows;
    return range_.begin + row * stream +
           sequence / rows % (windows_ / rows) * options_.sequence_length;
  }
  const auto windows = static_cast<std::uint64_t>(windows_);
  const Permutation order(windows, options_.seed, kEpochStream + index / windows);
  return range_.begin +
         static_cast<std::int64_t>(order(index % windows)) * options_.sequence_length;
}

Batch TrainingBatches::batch(std::int64_t step) const {
  return batch(step, 0, options_.batch_sequences);
}

Batch TrainingBatches::batch(std::int64_t step, std::int64_t first_sequence,
                             std::int64_t sequences) const {
  PENSTOCK_ASSERT(step >= 0 && first_sequence >= 0 && sequences >= 0 &&
                  first_sequence + sequences <= options_.batch_sequences);
  Batch out = empty_batch(sequences, options_.sequence_length, options_.isolate_documents);
  if (options_.sampling == Sampling::kStreams)
    out.fresh = step % (windows_ / options_.batch_sequences) == 0;
  for (std::int64_t i = 0; i < sequences; ++i)
    append_window(corpus_.file(), offset(step * options_.batch_sequences + first_sequence + i),
                  options_.isolate_documents, out);
  return out;
}

EvaluationWindows::EvaluationWindows(Corpus corpus, Split split, const EvaluationOptions& options)
    : corpus_(std::move(corpus)), options_(options), range_(corpus_.file().range(split)) {
  check_sizes(options_.sequence_length, options_.batch_sequences);
  PENSTOCK_CHECK(range_.tokens > 1, "the ", split_name(split), " split of '", corpus_.path(),
                 "' has ", range_.tokens,
                 " tokens and at least 2 are needed; prepare the corpus "
                 "with a larger share for it (`penstock data prepare --split`)");
  const std::int64_t targets = range_.tokens - 1;
  split_windows_ = targets / options_.sequence_length;
  windows_ = split_windows_;
  last_length_ = targets % options_.sequence_length;
  const std::int64_t limit = options_.max_tokens;
  if (limit > 0 && limit < targets) {
    if (split_windows_ > 0) last_length_ = 0;
    windows_ =
        std::min(split_windows_, std::max<std::int64_t>(1, limit / options_.sequence_length));
  }
  full_batches_ = (windows_ + options_.batch_sequences - 1) / options_.batch_sequences;
}

Batch EvaluationWindows::batch(std::int64_t index) const {
  PENSTOCK_ASSERT(index >= 0 && index < batches());
  const bool isolate = options_.isolate_documents;
  if (index == full_batches_) {
    Batch out = empty_batch(1, last_length_, isolate);
    append_window(corpus_.file(), range_.begin + split_windows_ * options_.sequence_length, isolate,
                  out);
    return out;
  }
  const std::int64_t first = index * options_.batch_sequences;
  Batch out = empty_batch(std::min(options_.batch_sequences, windows_ - first),
                          options_.sequence_length, isolate);
  for (std::int64_t i = first; i < first + out.sequences; ++i) {
    // Evenly spaced; the identity when every window is taken. 128 bits, since the counts multiply.
    const auto window =
        static_cast<std::int64_t>(static_cast<__int128>(i) * split_windows_ / windows_);
    append_window(corpus_.file(), range_.begin + window * options_.sequence_length, isolate, out);
  }
  return out;
}

EvaluationStreams::EvaluationStreams(Corpus corpus, Split split, const StreamOptions& options)
    : corpus_(std::move(corpus)), options_(options), range_(corpus_.file().range(split)) {
  check_sizes(options_.sequence_length, options_.batch_sequences);
  PENSTOCK_CHECK(options_.streams > 0 && range_.tokens > options_.streams, "the ",
                 split_name(split), " split of '", corpus_.path(), "' has ", range_.tokens,
                 " tokens, too few for ", options_.streams,
                 " streams; ask for fewer, or prepare the corpus with a larger share for it "
                 "(`penstock data prepare --split`)");
  length_ = scored_ = (range_.tokens - 1) / options_.streams;
  if (options_.max_tokens > 0)
    scored_ = std::clamp<std::int64_t>(options_.max_tokens / options_.streams, 1, length_);
}

std::int64_t EvaluationStreams::windows() const {
  return (scored_ + options_.sequence_length - 1) / options_.sequence_length;
}

std::int64_t EvaluationStreams::batches() const {
  return (options_.streams + options_.batch_sequences - 1) / options_.batch_sequences * windows();
}

Batch EvaluationStreams::batch(std::int64_t index) const {
  PENSTOCK_ASSERT(index >= 0 && index < batches());
  const std::int64_t first = index / windows() * options_.batch_sequences,
                     begin = index % windows() * options_.sequence_length;
  Batch out = empty_batch(std::min(options_.batch_sequences, options_.streams - first),
                          std::min(options_.sequence_length, scored_ - begin), false);
  out.fresh = begin == 0;
  for (std::int64_t stream = first; stream < first + out.sequences; ++stream)
    append_window(corpus_.file(), range_.begin + stream * length_ + begin, false, out);
  return out;
}

}  // namespace penstock
