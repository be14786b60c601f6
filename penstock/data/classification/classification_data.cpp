// Finds a dataset's files, splits sets, and computes the majority class.
#include "penstock/data/classification/classification_data.h"

#include <algorithm>
#include <filesystem>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/random.h"
#include "penstock/data/classification/readers.h"
#include "penstock/data/text_files.h"

namespace penstock {
namespace {

namespace files = std::filesystem;
using Format = ClassificationFormat;

constexpr std::uint64_t kSelectionStream = 0x73656c656374;  // "select"

/// The path DIR/NAME, or DIR/NAME with a compression suffix; "" if there is no such file.
std::string dataset_file(const files::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz", ".zst", ".xz", ".bz2"})
    if (files::is_regular_file(folder / (name + suffix)))
      return (folder / (name + suffix)).string();
  return {};
}

/// Whether `folder`, or a folder directly below it, has `train/pos`.
bool has_reviews(const files::path& folder) {
  if (files::is_directory(folder / "train" / "pos")) return true;
  for (const auto& entry : files::directory_iterator(folder))
    if (entry.is_directory() && files::is_directory(entry.path() / "train" / "pos")) return true;
  return false;
}

/// Reads the set; an empty path gives an empty set.
ClassificationSet read_if_there(Format format, const std::string& path,
                                std::span<const std::string> names) {
  return path.empty() ? ClassificationSet{} : read_classification(format, path, names);
}

ClassificationData from_files(Format format, const std::string& train,
                              const std::string& validation, const std::string& test) {
  ClassificationData out{.format = format, .train = read_classification(format, train)};
  const auto& names = out.train.class_names;
  if (!validation.empty()) out.validation = read_if_there(format, validation, names);
  if (!test.empty()) out.test = read_if_there(format, test, names);
  return out;
}

ClassificationData from_folder(const std::string& path) {
  const auto file = [&](const char* name) { return dataset_file(path, name); };
  if (const auto train = file("train.tsv"); !train.empty())
    return from_files(Format::kSst2, train, "", file("dev.tsv"));
  if (const auto train = file("train.csv"); !train.empty())
    return from_files(Format::kBanking77, train, "", file("test.csv"));
  if (const auto train = file("train.txt"); !train.empty())
    return from_files(Format::kSst5, train, file("dev.txt"), file("test.txt"));
  PENSTOCK_CHECK(has_reviews(path), "no dataset in '", path,
                 "': expected train.tsv and dev.tsv (SST-2), train.txt, dev.txt and test.txt "
                 "(SST-5), train.csv and test.csv (BANKING77), or train/pos and train/neg (IMDB)");
  ClassificationData out{.format = Format::kImdb, .train = read_imdb(path, "train")};
  if (auto test = read_imdb(path, "test"); !test.empty()) out.test = std::move(test);
  return out;
}

ClassificationData from_file(const std::string& path) {
  const std::string name = without_compression_suffix(path);
  if (name.ends_with(".tsv")) return from_files(Format::kSst2, path, "", "");
  if (name.ends_with(".csv")) return from_files(Format::kBanking77, path, "", "");
  if (name.ends_with(".txt")) return from_files(Format::kSst5, path, "", "");
  const bool archive = name.ends_with(".tar") || path.ends_with(".tgz") || path.ends_with(".txz") ||
                       path.ends_with(".zip");
  PENSTOCK_CHECK(archive, "cannot tell what '", path,
                 "' is by its name: .tsv is SST-2, .txt SST-5, .csv BANKING77, and an archive "
                 "IMDB; or name the dataset's folder");
  ClassificationData out{.format = Format::kImdb, .train = read_imdb(path, "train")};
  if (auto test = read_imdb(path, "test"); !test.empty()) out.test = std::move(test);
  return out;
}

void check_not_empty(const ClassificationSet& set, std::string_view name, const std::string& path) {
  PENSTOCK_CHECK(!set.empty(), "'", path, "' has no labelled texts for ", name);
}

}  // namespace

ClassificationData load_classification(const std::string& path) {
  PENSTOCK_CHECK(files::exists(path), "no such file or folder: '", path, "'");
  ClassificationData out = files::is_directory(path) ? from_folder(path) : from_file(path);
  check_not_empty(out.train, "training", path);
  if (out.validation) check_not_empty(*out.validation, "validation", path);
  if (out.test) check_not_empty(*out.test, "test", path);
  return out;
}

ClassificationSet read_classification(ClassificationFormat format, const std::string& path,
                                      std::span<const std::string> class_names,
                                      const std::string& split) {
  switch (format) {
    case Format::kAuto:
      break;
    case Format::kSst2:
      return read_sst2(path);
    case Format::kSst5:
      return read_sst5(path);
    case Format::kImdb:
      return read_imdb(path, split);
    case Format::kBanking77:
      return read_banking77(path, class_names);
  }
  PENSTOCK_ASSERT(false, "no format to read by");
}

std::pair<ClassificationSet, ClassificationSet> split_off(const ClassificationSet& set,
                                                          double share, std::uint64_t seed) {
  PENSTOCK_CHECK(share >= 0 && share <= 1, "a share of ", share, " is not from 0 to 1");
  ClassificationSet rest{.class_names = set.class_names}, held_out{.class_names = set.class_names};
  for (std::size_t i = 0; i < set.size(); ++i) {
    const std::uint64_t bits = random_bits(seed, kSelectionStream, xxh64(bytes_of(set.texts[i])));
    // 53 bits, as many as a double holds, give a number in [0, 1).
    const bool held = static_cast<double>(bits >> 11) * 0x1p-53 < share;
    ClassificationSet& to = held ? held_out : rest;
    to.texts.push_back(set.texts[i]);
    to.labels.push_back(set.labels[i]);
  }
  return {std::move(rest), std::move(held_out)};
}

int majority_class(const ClassificationSet& set) {
  PENSTOCK_CHECK(!set.empty(), "a set without texts has no majority class");
  std::vector<std::size_t> counts(set.class_names.size());
  for (const int label : set.labels) ++counts.at(static_cast<std::size_t>(label));
  return static_cast<int>(std::ranges::max_element(counts) - counts.begin());
}

double majority_accuracy(const ClassificationSet& train, const ClassificationSet& evaluated,
                         std::size_t texts) {
  PENSTOCK_CHECK(!evaluated.empty(), "there are no texts to evaluate on");
  PENSTOCK_ASSERT(texts <= evaluated.size());
  const std::span labels = std::span(evaluated.labels).first(texts > 0 ? texts : evaluated.size());
  const auto hits = std::ranges::count(labels, majority_class(train));
  return static_cast<double>(hits) / static_cast<double>(labels.size());
}

}  // namespace penstock
