// The notes of `penstock data prepare` about unexpected splits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/corpus/documents.h"

namespace penstock {

/// Says that the documents of a domain were cut because there are too few of them to give whole
/// ones to every split, what that makes of validation and test, and, where `joined` (every file was
/// read as one document) and one has blank lines, the option that cuts files into documents.
std::string cut_documents_note(const std::string& domain,
                               std::span<const Document* const> documents, bool joined);

/// A note for each split that should have a share of the text and has no token.
/// @param tokens  by split
std::vector<std::string> empty_split_notes(const std::array<double, 3>& shares,
                                           const std::array<std::int64_t, 3>& tokens);

}  // namespace penstock
