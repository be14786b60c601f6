#include "penstock/data/prepare/divide_documents.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "penstock/data/prepare/prepare_notes.h"
#include "penstock/data/text/text_boundary.h"

namespace penstock {
namespace {

/// The next position from `position` on where the text may be cut.
std::int64_t next_cut(std::string_view text, std::int64_t position, const DivideOptions& options) {
  if (options.plan.exact) return position;
  return options.lines ? line_boundary(text, position) : character_boundary(text, position);
}

/// Adds the pieces of one domain's documents.
void divide_domain(std::span<const Document> documents, const std::vector<std::size_t>& members,
                   const DivideOptions& options, DividedDocuments& out) {
  std::vector<std::size_t> open;
  std::vector<const Document*> cut;
  std::vector<std::int64_t> lengths;
  for (const std::size_t i : members) {
    const std::int64_t length = document_length(documents[i], options.end_of_document);
    if (documents[i].split) {
      out.pieces.push_back({i, 0, length, *documents[i].split});
    } else {
      open.push_back(i);
      cut.push_back(&documents[i]);
      lengths.push_back(length);
    }
  }
  bool fell_back = false;
  for (Piece piece : assign_splits(lengths, options.plan, options.seed, fell_back)) {
    piece.document = open[piece.document];
    const std::string_view text = documents[piece.document].text;
    piece.begin = next_cut(text, piece.begin, options);
    piece.end = next_cut(text, piece.end, options);
    if (piece.begin < piece.end) out.pieces.push_back(piece);
  }
  if (fell_back && !open.empty())
    out.notes.push_back(cut_documents_note(out.domains.back(), cut, options.joined));
}

}  // namespace

DividedDocuments divide_documents(std::span<const Document> documents,
                                  const DivideOptions& options) {
  DividedDocuments out{.domain_of = std::vector<std::uint32_t>(documents.size())};
  std::map<std::string, std::vector<std::size_t>> by_domain;
  for (std::size_t i = 0; i < documents.size(); ++i) by_domain[documents[i].domain].push_back(i);
  for (const auto& [domain, members] : by_domain) {
    for (const std::size_t i : members)
      out.domain_of[i] = static_cast<std::uint32_t>(out.domains.size());
    out.domains.push_back(domain);
    divide_domain(documents, members, options, out);
  }
  std::ranges::stable_sort(out.pieces, [](const Piece& a, const Piece& b) {
    return std::tie(a.split, a.document, a.begin) < std::tie(b.split, b.document, b.begin);
  });
  return out;
}

std::int64_t document_length(const Document& document, bool end_of_document) {
  return std::ssize(document.text) + (end_of_document ? 1 : 0);
}

std::string_view piece_text(const Document& document, const Piece& piece) {
  const std::string_view text = document.text;
  const auto begin = static_cast<std::size_t>(piece.begin);
  // The end of the document counts in the piece's length but is not text.
  return text.substr(begin, static_cast<std::size_t>(piece.end) - begin);
}

}  // namespace penstock
