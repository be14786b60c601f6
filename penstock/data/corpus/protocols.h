// Named protocols by which papers prepare a data set: tokenizer, split and ends of documents.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/corpus/documents.h"

namespace penstock {

struct Protocol {
  std::string_view name, summary;
  std::string_view tokenizer;
  /// As PrepareOptions::split; "" if the files' names give the split.
  std::string_view split;
};

/// enwik8, enwik8-no-newlines, text8, wikitext. No protocol ends documents with an id.
std::span<const Protocol> protocols();

/// The protocol of that name. Throws Error for an unknown name, with the known ones.
const Protocol& protocol(std::string_view name);

/// Sets the split of each document without one from its file's name: train, valid (or dev), test.
/// Documents of other files are removed, with a note for each file.
/// Throws Error if no file is for training.
void assign_splits_by_name(std::vector<Document>& documents, std::vector<std::string>& notes);

}  // namespace penstock
