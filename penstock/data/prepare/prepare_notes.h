// The notes of `penstock data prepare` about unexpected splits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/corpus/documents.h"

namespace penstock {

/// The note that a domain has too few documents to give whole ones to every split, so that its text
/// was cut, and what this means for validation and test. If `joined` (every file was read as one
/// document) and a file has blank lines, it names the option that cuts files into documents.
std::string cut_documents_note(const std::string& domain,
                               std::span<const Document* const> documents, bool joined);

/// A note for each split that has a share above 0 but no token.
/// @param tokens  by split
std::vector<std::string> empty_split_notes(const std::array<double, 3>& shares,
                                           const std::array<std::int64_t, 3>& tokens);

}  // namespace penstock
