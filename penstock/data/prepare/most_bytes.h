// Reduces a text to a given size: removes documents of each domain and keeps the domains'
// proportions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/data/corpus/documents.h"

namespace penstock {

/// Keeps whole documents with at most `bytes` of text in total, in unchanged order, and erases the
/// others.
///
/// A domain with B of all S bytes may keep bytes·B/S. Its documents are taken in an order drawn
/// from the seed and the domain's name; a document that no longer fits is skipped. Documents that
/// the user assigned to validation or test are kept and do not count. Returns notes: how much was
/// kept, and domains of which no document fits. Throws Error if no document of any domain fits.
/// REQUIRES: bytes > 0.
std::vector<std::string> keep_most_bytes(std::vector<Document>& documents, std::int64_t bytes,
                                         std::uint64_t seed);

}  // namespace penstock
