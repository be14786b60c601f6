// Labelled texts for fine-tuning: SST-2, SST-5, IMDB and BANKING77 in their public file formats,
// and how a selection set is set apart. Knows nothing of tokens or models.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/data/classification/labelled_texts.h"

namespace penstock {

/// The format of a dataset; kAuto: decided by the names of its files.
enum class ClassificationFormat { kAuto, kSst2, kSst5, kImdb, kBanking77 };
constexpr std::array<std::string_view, 5> words(ClassificationFormat) {
  return {"auto", "sst2", "sst5", "imdb", "banking77"};
}

/// What a dataset's public files hold. All sets have the same class names.
struct ClassificationData {
  ClassificationFormat format = ClassificationFormat::kSst2;
  ClassificationSet train;
  /// The dataset's own set for selection (SST-5 has one, the others none).
  std::optional<ClassificationSet> validation;
  /// The set on which results are reported. SST-2: dev.tsv, since the labels of GLUE's test set are
  /// not public. split_off makes another set for choosing a checkpoint.
  std::optional<ClassificationSet> test;
};

/// Reads a dataset from its folder, or from an archive or file. The names decide the format:
///   SST-2      folder with train.tsv and dev.tsv (GLUE: sentence, label); a .tsv file
///   SST-5      folder with train.txt, dev.txt, test.txt: a Penn Treebank tree a line, the root's
///              label being the class, or the label and the text; a .txt file
///   IMDB       folder or archive (aclImdb_v1.tar.gz) with {train,test}/{pos,neg}/*.txt
///   BANKING77  folder with train.csv and test.csv (text, category); a .csv file. Class names are
///              those of categories.json beside it, in its order; without it, the training
///              file's, sorted.
/// Each may be compressed (.gz, ...). A single file is `train`. Texts stay as they are written
/// (PTB escapes, <br />); classes are 0 negative, 1 positive (SST-2, IMDB) and 0 to 4 from very
/// negative to very positive (SST-5).
/// Throws Error, with file and line, for a missing column, an unknown label, an unbalanced tree or
/// quote, text that is not UTF-8, a truncated archive, and a set without texts.
ClassificationData load_classification(const std::string& path);

/// One file (for IMDB: folder or archive, `split` being "train" or "test") as one set.
/// `class_names` (BANKING77): the names to use; empty means from the files, as above.
/// REQUIRES: format is not kAuto.
ClassificationSet read_classification(ClassificationFormat format, const std::string& path,
                                      std::span<const std::string> class_names = {},
                                      const std::string& split = "train");

/// Holds out a share of the texts for selection: {rest, held out}. The side of each text
/// depends only on its bytes and the seed, so equal texts stay together and the order of the file
/// does not matter; the held-out number is binomial. Both keep the order and the class names.
/// REQUIRES: 0 <= share <= 1.
std::pair<ClassificationSet, ClassificationSet> split_off(const ClassificationSet& set,
                                                          double share, std::uint64_t seed);

/// The most frequent class; in a tie the lowest. Throws Error for an empty set.
int majority_class(const ClassificationSet& set);

/// Share of `evaluated` whose label is the majority class of `train`: the accuracy of guessing it.
/// @param texts  only that many of `evaluated`, from its begin; 0: all
double majority_accuracy(const ClassificationSet& train, const ClassificationSet& evaluated,
                         std::size_t texts = 0);

}  // namespace penstock
