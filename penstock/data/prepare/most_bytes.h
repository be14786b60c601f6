// Reduces a text to a given size: removes documents of each domain and keeps the domains'
// proportions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/data/corpus/documents.h"

namespace penstock {

/// Keeps whole documents with at most `bytes` of text in all; the rest are erased, and the order of
/// those that stay is unchanged.
///
/// A domain with B of all S bytes has room for bytes·B/S. It is filled in an order drawn from the
/// seed and the domain's name; a document that no longer fits is passed over. Documents that were
/// assigned to validation or test stay and do not count.
/// Returns notes: what was kept, and domains of which no document fits. Throws Error if no document
/// of any domain fits. REQUIRES: bytes > 0.
std::vector<std::string> keep_most_bytes(std::vector<Document>& documents, std::int64_t bytes,
                                         std::uint64_t seed);

}  // namespace penstock
