// Divides the documents of a corpus into pieces for training, validation and test. assign_splits.h
// computes the shares of one domain from lengths alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/corpus/documents.h"
#include "penstock/data/prepare/assign_splits.h"

namespace penstock {

struct DivideOptions {
  SplitPlan plan;
  std::uint64_t seed = 0;
  bool lines = false;            ///< cut only between lines, not between characters
  bool end_of_document = false;  ///< a document's length includes one for its end
  bool joined = false;           ///< every file was read as one document
};

struct DividedDocuments {
  std::vector<std::string> domains;
  std::vector<std::uint32_t> domain_of;  ///< by document
  std::vector<Piece> pieces;             ///< train, validation, test, each in order
  std::vector<std::string> notes;        ///< domains that were cut although the split was not
};

/// Divides the documents of each domain, in the order of the domains' names. Documents that already
/// have a split keep it.
DividedDocuments divide_documents(std::span<const Document> documents,
                                  const DivideOptions& options);

/// The length that counts for the splits' shares: the text's bytes, plus one for the end of the
/// document if `end_of_document`.
std::int64_t document_length(const Document& document, bool end_of_document);

/// The text of a piece of the document.
std::string_view piece_text(const Document& document, const Piece& piece);

}  // namespace penstock
