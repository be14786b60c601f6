// Near-duplicate removal by paragraph. A paragraph is a run of lines without a blank one, cut at
// about 2 KB. It is compared as a bag of 8-word shingles with letters lower-cased, digits made
// equal and everything between words ignored, so line breaks, comment signs and years do not hide a
// copy.
//
// A paragraph goes when at least half of its shingles occur in what is kept already. Exact
// containment in everything kept, instead of MinHash between pairs, needs no banding parameters,
// finds a paragraph that is pieced together from several others, and is linear. Its table takes
// 16/3 bytes per word (shingle_set.h) and its list of paragraphs some 48 bytes each, which together
// is less than the text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "penstock/data/corpus/documents.h"

namespace penstock {

/// Shorter paragraphs (headings, closing braces), counted after normalisation, are structure and
/// stay.
inline constexpr std::size_t kShortestParagraphBytes = 50;

struct DedupResult {
  std::int64_t paragraphs = 0;  // long enough to be compared
  std::int64_t removed = 0;
  std::int64_t removed_bytes = 0;
  std::int64_t removed_documents = 0;  // with what was left of them
};

/// Removes near-duplicate paragraphs in place, and documents that keep less than a third of their
/// bytes: what is left is a frame of headings around nothing. Longer paragraphs
/// are kept first, so that an excerpt goes and its whole stays; ties go by order. Documents of the
/// validation and test splits that were given as such stay; paragraphs that repeat them are
/// removed. `progress` gets the share of the paragraphs that have been compared, now and then.
DedupResult remove_near_duplicates(std::vector<Document>& documents,
                                   const std::function<void(double)>& progress = {});

/// The share of paragraphs of `probe` of which at least half of the shingles occur in `reference`;
/// 0 where there are none. Memory: two tables for the probe's shingles.
double paragraph_overlap(std::span<const std::string_view> reference,
                         std::span<const std::string_view> probe);

}  // namespace penstock
