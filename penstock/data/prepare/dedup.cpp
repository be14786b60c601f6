// Removes near-duplicate paragraphs: computes the shingles of paragraphs and remembers seen ones.
#include "penstock/data/prepare/dedup.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "penstock/base/random.h"
#include "penstock/data/prepare/shingle_set.h"

namespace penstock {
namespace {

constexpr std::size_t kShingleWords = 8;
constexpr std::size_t kLongestParagraphBytes = 2048;

/// Each byte of a word after normalisation; 0 for bytes that separate words.
constexpr std::array<char, 256> normal_bytes() {
  std::array<char, 256> table{};
  for (int c = 0; c < 256; ++c) {
    if (c >= 'A' && c <= 'Z') table[c] = static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || c == '_' || c >= 0x80) table[c] = static_cast<char>(c);
    if (c >= '0' && c <= '9') table[c] = '0';
  }
  return table;
}
constexpr auto kNormal = normal_bytes();

struct Shingles {
  std::vector<std::uint64_t> hashes;
  std::size_t bytes = 0;  // length of the normalised paragraph

  bool comparable() const { return bytes >= kShortestParagraphBytes; }

  void read(std::string_view paragraph) {
    words_.clear();
    hashes.clear();
    bytes = 0;
    std::uint64_t word = 0;
    for (const char c : paragraph) {
      const auto normal = static_cast<unsigned char>(kNormal[static_cast<unsigned char>(c)]);
      if (normal) {
        word = (word + normal) * 0x100000001b3ULL + 1;
        ++bytes;
      } else if (word) {
        end_word(word);
      }
    }
    if (word) end_word(word);
    const std::size_t width = std::min(words_.size(), kShingleWords);
    for (std::size_t i = 0; i + width <= words_.size() && width > 0; ++i) {
      std::uint64_t hash = width;
      for (std::size_t k = 0; k < width; ++k) hash = (hash ^ words_[i + k]) * 0x9fb21c651e98df25ULL;
      hashes.push_back(mix64(hash));
    }
  }

 private:
  void end_word(std::uint64_t& word) {
    words_.push_back(mix64(word));
    word = 0;
    ++bytes;  // the space after it
  }
  std::vector<std::uint64_t> words_;
};

bool mostly_known(const ShingleSet& seen, const Shingles& shingles) {
  std::size_t known = 0;
  for (const auto hash : shingles.hashes) known += seen.contains(hash);
  return 2 * known >= shingles.hashes.size();
}

void remember(ShingleSet& seen, const Shingles& shingles) {
  for (const auto hash : shingles.hashes) seen.insert(hash);
}

/// Cuts the text into paragraphs that cover it. Blank lines belong to the paragraph before them.
std::vector<std::string_view> paragraphs_of(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  bool blank_before = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const bool blank = text.substr(at, end - at).find_first_not_of(" \t\r\n") == text.npos;
    const bool long_enough = end - begin > kLongestParagraphBytes;
    if (at > begin && !blank && (blank_before || long_enough)) {
      out.push_back(text.substr(begin, at - begin));
      begin = at;
    }
    blank_before = blank;
    at = end;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

bool is_held_out(const Document& document) {
  return document.split && *document.split != Split::kTrain;
}

struct Paragraph {
  std::string_view text;
  std::size_t normal_bytes = 0;
  std::size_t shingles = 0;
  bool kept = true;
};

/// The paragraphs of each document, in order.
std::vector<std::vector<Paragraph>> all_paragraphs(const std::vector<Document>& documents) {
  std::vector<std::vector<Paragraph>> out(documents.size());
  Shingles shingles;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto texts = paragraphs_of(documents[i].text);
    out[i].reserve(texts.size());
    for (const auto text : texts) {
      shingles.read(text);
      out[i].push_back({text, shingles.bytes, shingles.hashes.size()});
    }
  }
  return out;
}

/// The number of shingles of all compared paragraphs, repetitions included.
std::uint64_t count_shingles(const std::vector<std::vector<Paragraph>>& paragraphs) {
  std::uint64_t sum = 0;
  for (const auto& document : paragraphs)
    for (const auto& paragraph : document)
      if (paragraph.normal_bytes >= kShortestParagraphBytes) sum += paragraph.shingles;
  return sum;
}

/// Sets each document's text to its kept paragraphs. Returns the number of removed documents.
std::int64_t keep_the_kept(std::vector<Document>& documents,
                           const std::vector<std::vector<Paragraph>>& paragraphs,
                           const std::function<DocumentText(std::string)>& keep) {
  for (std::size_t i = 0; i < documents.size(); ++i) {
    std::size_t bytes = 0;
    for (const auto& paragraph : paragraphs[i]) bytes += paragraph.kept ? paragraph.text.size() : 0;
    const std::size_t before = documents[i].text.size();
    if (bytes == before) continue;
    std::string kept;
    if (3 * bytes >= before) {
      kept.reserve(bytes);
      for (const auto& paragraph : paragraphs[i])
        if (paragraph.kept) kept += paragraph.text;
    }
    documents[i].text = keep ? keep(std::move(kept)) : DocumentText(std::move(kept));
  }
  return static_cast<std::int64_t>(
      std::erase_if(documents, [](const Document& document) { return document.text.empty(); }));
}

}  // namespace

DedupResult remove_near_duplicates(std::vector<Document>& documents,
                                   const std::function<void(double)>& progress,
                                   const std::function<DocumentText(std::string)>& keep) {
  auto paragraphs = all_paragraphs(documents);
  ShingleSet seen(count_shingles(paragraphs));
  Shingles shingles;
  DedupResult result;
  std::vector<Paragraph*> order;
  for (std::size_t i = 0; i < documents.size(); ++i)
    for (auto& paragraph : paragraphs[i]) {
      if (paragraph.normal_bytes < kShortestParagraphBytes) continue;
      ++result.paragraphs;
      if (!is_held_out(documents[i])) {
        order.push_back(&paragraph);
        continue;
      }
      shingles.read(paragraph.text);
      remember(seen, shingles);
    }
  std::stable_sort(order.begin(), order.end(), [](const Paragraph* a, const Paragraph* b) {
    return a->normal_bytes > b->normal_bytes;
  });
  constexpr std::size_t report_every = 1 << 16;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (progress && i % report_every == 0)
      progress(static_cast<double>(i) / static_cast<double>(order.size()));
    shingles.read(order[i]->text);
    order[i]->kept = !mostly_known(seen, shingles);
    if (order[i]->kept) {
      remember(seen, shingles);
    } else {
      ++result.removed;
      result.removed_bytes += static_cast<std::int64_t>(order[i]->text.size());
    }
  }
  result.removed_documents = keep_the_kept(documents, paragraphs, keep);
  return result;
}

double paragraph_overlap(std::span<const std::string_view> reference,
                         std::span<const std::string_view> probe) {
  Shingles shingles;
  const auto for_each = [&](std::span<const std::string_view> texts, const auto& visit) {
    for (const auto text : texts)
      for (const auto paragraph : paragraphs_of(text)) {
        shingles.read(paragraph);
        if (shingles.comparable()) visit();
      }
  };
  std::uint64_t most = 0;
  for_each(probe, [&] { most += shingles.hashes.size(); });
  // The probe is smaller than the reference, so the set of its shingles takes less memory.
  ShingleSet wanted(most), met(most);
  for_each(probe, [&] { remember(wanted, shingles); });
  for_each(reference, [&] {
    for (const auto hash : shingles.hashes)
      if (wanted.contains(hash)) met.insert(hash);
  });
  std::int64_t total = 0, known = 0;
  for_each(probe, [&] {
    ++total;
    known += mostly_known(met, shingles);
  });
  return total ? static_cast<double>(known) / static_cast<double>(total) : 0.0;
}

}  // namespace penstock
