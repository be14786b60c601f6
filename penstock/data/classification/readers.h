// One reader for each format of labelled texts. All throw Error with file and line.
// classification_data.cpp chooses the reader.
#pragma once

#include <span>
#include <string>

#include "penstock/data/classification/labelled_texts.h"

namespace penstock {

/// GLUE's tab-separated files with a header; columns "sentence" and "label" (0 or 1), no quoting.
ClassificationSet read_sst2(const std::string& path);

/// A Penn Treebank tree in each line, `(3 (2 It) (4 works))`, whose root's label is the class; or
/// `3 It works`.
ClassificationSet read_sst5(const std::string& path);

/// {split}/{pos,neg}/*.txt anywhere below a folder or in an archive, in the order of their names;
/// other files (unsup, word lists) are skipped.
ClassificationSet read_imdb(const std::string& path, const std::string& split);

/// Comma-separated, quoted as in RFC 4180, with columns "text" and "category". `class_names` as in
/// read_classification().
ClassificationSet read_banking77(const std::string& path, std::span<const std::string> class_names);

}  // namespace penstock
