// One reader per file format. All throw Error with file and line; which one fits is decided in
// classification_data.cpp.
#pragma once

#include <span>
#include <string>

#include "penstock/data/classification/labelled_texts.h"

namespace penstock {

/// GLUE's tab-separated files with a header; columns "sentence" and "label" (0 or 1), no quoting.
ClassificationSet read_sst2(const std::string& path);

/// A Penn Treebank tree a line, `(3 (2 It) (4 works))`, class = the root's label; or `3 It works`.
ClassificationSet read_sst5(const std::string& path);

/// {split}/{pos,neg}/*.txt anywhere below a folder or in an archive, in the order of their names;
/// whatever else is there (unsup, word lists) is passed over.
ClassificationSet read_imdb(const std::string& path, const std::string& split);

/// Comma-separated, quoted as in RFC 4180, with columns "text" and "category". Names as in
/// read_classification.
ClassificationSet read_banking77(const std::string& path, std::span<const std::string> class_names);

}  // namespace penstock
