// Named protocols: how papers prepare a data set (tokenizer and split).
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
  /// As PrepareOptions::split; "" if the names of the files give the split.
  std::string_view split;
};

/// enwik8, enwik8-no-newlines, text8, wikitext. No protocol ends documents with an id.
std::span<const Protocol> protocols();

/// The protocol of that name. Throws Error for an unknown name; the error lists the known ones.
const Protocol& protocol(std::string_view name);

/// Sets the split of each document that has none, by the name of its file: train, valid (or dev),
/// test. Removes documents of other files and adds a note for each file.
/// Throws Error if no file is for training.
void assign_splits_by_name(std::vector<Document>& documents, std::vector<std::string>& notes);

}  // namespace penstock
