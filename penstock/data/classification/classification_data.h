// Labelled texts for fine-tuning: reads SST-2, SST-5, IMDB and BANKING77 in their public file
// formats, and splits off a validation set. It knows neither tokens nor models.
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

/// The format of a dataset; kAuto: the names of its files decide.
enum class ClassificationFormat { kAuto, kSst2, kSst5, kImdb, kBanking77 };
constexpr std::array<std::string_view, 5> words(ClassificationFormat) {
  return {"auto", "sst2", "sst5", "imdb", "banking77"};
}

/// The sets in a dataset's public files. All sets have the same class names.
struct ClassificationData {
  ClassificationFormat format = ClassificationFormat::kSst2;
  ClassificationSet train;
  /// The dataset's own validation set (only SST-5 has one).
  std::optional<ClassificationSet> validation;
  /// The set on which results are reported. SST-2: dev.tsv, since the labels of GLUE's test set are
  /// not public. split_off makes another set for choosing a checkpoint.
  std::optional<ClassificationSet> test;
};

/// Reads a dataset from its folder, or from an archive or file. The files' names decide the format:
///   SST-2      folder with train.tsv and dev.tsv (GLUE: sentence, label); a .tsv file
///   SST-5      folder with train.txt, dev.txt, test.txt: a Penn Treebank tree a line, the root's
///              label being the class, or the label and the text; a .txt file
///   IMDB       folder or archive (aclImdb_v1.tar.gz) with {train,test}/{pos,neg}/*.txt
///   BANKING77  folder with train.csv and test.csv (text, category); a .csv file. The class names
///              are those of categories.json in the same folder, in its order; without that file,
///              those of the training file, sorted.
/// Each file may be compressed (.gz, ...). A single file becomes `train`. Texts are not changed
/// (PTB escapes, <br />). Classes are 0 negative, 1 positive (SST-2, IMDB) and 0 to 4 from very
/// negative to very positive (SST-5).
/// Throws Error, with file and line, for a missing column, an unknown label, an unbalanced tree or
/// quote, text that is not UTF-8, a truncated archive, and a set without texts.
ClassificationData load_classification(const std::string& path);

/// Reads one file (for IMDB: folder or archive, `split` being "train" or "test") as one set.
/// `class_names` (BANKING77): the names to use; if empty, they come from the files, as above.
/// REQUIRES: format is not kAuto.
ClassificationSet read_classification(ClassificationFormat format, const std::string& path,
                                      std::span<const std::string> class_names = {},
                                      const std::string& split = "train");

/// Holds out about this share of the texts for validation: {rest, held out}. Whether a text is held
/// out depends only on its bytes and the seed, so equal texts stay together and the file's order
/// does not matter. The number of held-out texts is binomially distributed. Both sets keep the
/// order and the class names. REQUIRES: 0 <= share <= 1.
std::pair<ClassificationSet, ClassificationSet> split_off(const ClassificationSet& set,
                                                          double share, std::uint64_t seed);

/// The most frequent class; the lowest of several. Throws Error for an empty set.
int majority_class(const ClassificationSet& set);

/// The accuracy on `evaluated` of always guessing the majority class of `train`.
/// @param texts  number of first texts of `evaluated` that count; 0: all
double majority_accuracy(const ClassificationSet& train, const ClassificationSet& evaluated,
                         std::size_t texts = 0);

}  // namespace penstock
