// Near-duplicate removal by paragraph. A paragraph is a run of lines without a blank line, cut at
// about 2 KB. Paragraphs are compared as bags of 8-word shingles. Letters are lower-cased, all
// digits are equal and everything between words is ignored, so line breaks, comment signs and years
// do not hide a copy.
//
// A paragraph is removed if at least half of its shingles occur in the text that was already kept.
// Containment in everything kept, instead of MinHash between pairs, needs no banding parameters,
// finds a paragraph that is pieced together from several others, and takes linear time. Its table
// takes 16/3 bytes per word (shingle_set.h) and its list of paragraphs some 48 bytes each, together
// less than the text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "penstock/data/corpus/documents.h"

namespace penstock {

/// Paragraphs that are shorter after normalisation (headings, closing braces) are structure and are
/// kept.
inline constexpr std::size_t kShortestParagraphBytes = 50;

struct DedupResult {
  std::int64_t paragraphs = 0;  // that are long enough to be compared
  std::int64_t removed = 0;
  std::int64_t removed_bytes = 0;
  std::int64_t removed_documents = 0;  // including the paragraphs that were left of them
};

/// Removes near-duplicate paragraphs in place, and documents that keep less than a third of their
/// bytes, since mainly headings are left of them. Longer paragraphs are compared first, so that a
/// whole text is kept and its excerpts are removed; ties go by order. Documents that the user
/// assigned to validation or test are kept, and paragraphs elsewhere that repeat them are removed.
/// @param progress  receives the share of the paragraphs that have been compared, now and then
/// @param keep      keeps the text of a changed document, which otherwise owns it
DedupResult remove_near_duplicates(std::vector<Document>& documents,
                                   const std::function<void(double)>& progress = {},
                                   const std::function<DocumentText(std::string)>& keep = {});

/// The share of paragraphs of `probe` of which at least half of the shingles occur in `reference`;
/// 0 if `probe` has no paragraphs. Memory: two tables for the probe's shingles.
double paragraph_overlap(std::span<const std::string_view> reference,
                         std::span<const std::string_view> probe);

}  // namespace penstock
