#include "penstock/finetune/splits.h"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

// Streams of the seed: for the sets that are split off, and for the texts that are drawn.
constexpr std::uint64_t kTestStream = 11, kSelectionStream = 12, kTrainStream = 13,
                        kFewerStream = 14;

std::uint64_t stream_seed(const FinetuneConfig& config, std::uint64_t stream) {
  return random_bits(static_cast<std::uint64_t>(config.seed), stream, 0);
}

ClassificationData read_task(const std::string& path, ClassificationFormat format) {
  if (format == ClassificationFormat::kAuto) return load_classification(path);
  if (std::filesystem::is_regular_file(path) && format != ClassificationFormat::kImdb)
    return {.format = format, .train = read_classification(format, path)};
  ClassificationData data = load_classification(path);
  PENSTOCK_CHECK(data.format == format, path, ": is ", word(data.format), ", not ", word(format),
                 "; leave options.task out, or give the other data");
  return data;
}

void check_classes(const ClassificationSet& train, const ClassificationSet& other, const char* what,
                   const std::string& path) {
  PENSTOCK_CHECK(other.class_names == train.class_names, path, ": the training texts have ",
                 train.classes(), " classes and the ", what, " has ", other.classes(),
                 ", or they are named otherwise; both must be of one data set");
  std::vector<bool> trained(train.class_names.size());
  for (const int label : train.labels) trained[static_cast<std::size_t>(label)] = true;
  for (const int label : other.labels)
    PENSTOCK_CHECK(trained[static_cast<std::size_t>(label)], path, ": class '",
                   train.class_names[static_cast<std::size_t>(label)], "' is in the ", what,
                   " but has no training text; give more texts of it, or leave it out");
}

/// At most `most` texts, drawn from the seed, in the file's order; 0: all texts.
ClassificationSet at_most(const ClassificationSet& set, std::int64_t most, std::uint64_t seed) {
  if (most == 0 || most >= static_cast<std::int64_t>(set.size())) return set;
  std::vector<std::size_t> order(set.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, seed, 0);
  order.resize(static_cast<std::size_t>(most));
  std::ranges::sort(order);
  ClassificationSet out{.class_names = set.class_names};
  for (const std::size_t i : order) {
    out.texts.push_back(set.texts[i]);
    out.labels.push_back(set.labels[i]);
  }
  return out;
}

void divide_as_authors(ClassificationData& data, const std::string& path, FinetuneSplits& out) {
  auto& dev = data.validation ? data.validation : data.test;
  PENSTOCK_CHECK(dev, path,
                 ": protocol \"authors\" selects and tests on a development set, and "
                 "here is none; give the data set's folder");
  out.train = std::move(data.train);
  out.selection = *dev;
  out.test = std::move(*dev);
  out.selection_source = out.test_source = "the development set, which is also the other";
}

void divide_clean(ClassificationData& data, const FinetuneConfig& config, FinetuneSplits& out) {
  out.train = std::move(data.train);
  if (data.test) {
    out.test = std::move(*data.test);
    out.test_source = "the data set's own";
  } else {
    std::tie(out.train, out.test) =
        split_off(out.train, config.test_share, stream_seed(config, kTestStream));
    out.test_source = fmt::format("{:g} % of the texts, by seed", 100 * config.test_share);
  }
  out.train = at_most(out.train, config.most_train, stream_seed(config, kTrainStream));
  if (data.validation) {
    out.selection = std::move(*data.validation);
    out.selection_source = "the data set's own";
  } else {
    std::tie(out.train, out.selection) =
        split_off(out.train, config.selection_share, stream_seed(config, kSelectionStream));
    out.selection_source =
        fmt::format("{:g} % of the training texts, by seed", 100 * config.selection_share);
  }
}

void hash_number(Xxh64& hash, std::uint64_t value) {
  hash.update(std::as_bytes(std::span(&value, 1)));
}

}  // namespace

std::string FinetuneSplits::hash() const {
  Xxh64 hash;
  for (const auto* set : {&train, &selection, &test}) {
    hash_number(hash, set->size());
    for (std::size_t i = 0; i < set->size(); ++i) {
      hash_number(hash, set->texts[i].size());
      hash.update(std::as_bytes(std::span(set->texts[i])));
      hash_number(hash, static_cast<std::uint64_t>(set->labels[i]));
    }
  }
  return fmt::format("{:016x}", hash.value());
}

ClassificationSet read_test_set(const std::string& path) {
  ClassificationData data = load_classification(path);
  return data.test ? std::move(*data.test) : std::move(data.train);
}

FinetuneSplits load_finetune_splits(const std::string& path, ClassificationFormat task,
                                    const FinetuneConfig& config) {
  ClassificationData data = read_task(path, task);
  if (data.test) check_classes(data.train, *data.test, "test set", path);
  if (data.validation) check_classes(data.train, *data.validation, "development set", path);
  FinetuneSplits out{.task = data.format};
  if (config.authors()) {
    divide_as_authors(data, path, out);
    out.train = at_most(out.train, config.most_train, stream_seed(config, kTrainStream));
  } else {
    divide_clean(data, config, out);
  }
  out.test = at_most(out.test, config.most_test, stream_seed(config, kFewerStream));
  if (config.authors()) out.selection = out.test;
  PENSTOCK_CHECK(!out.train.empty(), path, ": no training text is left");
  PENSTOCK_CHECK(!out.selection.empty(), path,
                 ": the selection set is empty; raise "
                 "selection_share, or give more texts");
  PENSTOCK_CHECK(!out.test.empty(), path,
                 ": the test set is empty; raise test_share, or give more texts");
  check_classes(out.train, out.test, "test set", path);  // the division may take a class's texts
  return out;
}

}  // namespace penstock
