// The ways in which papers prepare a data set, by name: tokenizer, split and ends of documents.
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
  /// As PrepareOptions::split; "" where the files' names say which split they are.
  std::string_view split;
};

/// enwik8, enwik8-no-newlines, text8, wikitext. None ends documents with an id of its own.
std::span<const Protocol> protocols();

/// Throws Error, with the names there are, for one that is not among them.
const Protocol& protocol(std::string_view name);

/// Gives each document that has no split the one that its file's own name holds: train, valid (or
/// dev), test. Documents of other files are removed, each file with a note.
/// Throws Error where no file is for training.
void assign_splits_by_name(std::vector<Document>& documents, std::vector<std::string>& notes);

}  // namespace penstock
