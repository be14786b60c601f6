// Shingles of paragraphs and a table of those seen.
#include "penstock/data/dedup.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "penstock/base/random.h"

namespace penstock {
namespace {

constexpr std::size_t kShingleWords = 8;
constexpr std::size_t kLongestParagraphBytes = 2048;

/// A set of 64-bit hashes: open addressing, since a node per shingle would cost 40 bytes.
class HashSet {
 public:
  bool contains(std::uint64_t hash) const { return !slots_.empty() && slots_[find(hash | 1)] != 0; }
  void insert(std::uint64_t hash) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    auto& slot = slots_[find(hash | 1)];
    size_ += slot == 0;
    slot = hash | 1;  // 0 marks an empty slot
  }

 private:
  std::size_t find(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key >> 1) & mask;
    while (slots_[at] != 0 && slots_[at] != key) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    auto old = std::exchange(
        slots_, std::vector<std::uint64_t>(std::max<std::size_t>(1024, 2 * slots_.size())));
    for (const auto key : old)
      if (key) slots_[find(key)] = key;
  }
  std::vector<std::uint64_t> slots_;
  std::size_t size_ = 0;
};

/// A word's byte after normalisation, or 0 for what separates words.
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
  std::size_t bytes = 0;  // of the normalised paragraph

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

bool mostly_known(const HashSet& seen, const Shingles& shingles) {
  std::size_t known = 0;
  for (const auto hash : shingles.hashes) known += seen.contains(hash);
  return 2 * known >= shingles.hashes.size();
}

void remember(HashSet& seen, const Shingles& shingles) {
  for (const auto hash : shingles.hashes) seen.insert(hash);
}

/// Cuts the text into paragraphs that cover it: blank lines belong to the one before them.
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

}  // namespace

DedupResult remove_near_duplicates(std::vector<Document>& documents) {
  struct Paragraph {
    std::string_view text;
    std::size_t normal_bytes;
    bool kept = true;
  };
  DedupResult result;
  HashSet seen;
  Shingles shingles;
  std::vector<std::vector<Paragraph>> all(documents.size());
  std::vector<Paragraph*> order;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    for (const auto text : paragraphs_of(documents[i].text)) {
      shingles.read(text);
      all[i].push_back({text, shingles.bytes});
      result.paragraphs += shingles.comparable();
      if (shingles.comparable() && is_held_out(documents[i])) remember(seen, shingles);
    }
    if (is_held_out(documents[i])) continue;
    for (auto& paragraph : all[i])
      if (paragraph.normal_bytes >= kShortestParagraphBytes) order.push_back(&paragraph);
  }
  std::stable_sort(order.begin(), order.end(), [](const Paragraph* a, const Paragraph* b) {
    return a->normal_bytes > b->normal_bytes;
  });
  for (Paragraph* paragraph : order) {
    shingles.read(paragraph->text);
    paragraph->kept = !mostly_known(seen, shingles);
    if (paragraph->kept) {
      remember(seen, shingles);
    } else {
      ++result.removed;
      result.removed_bytes += static_cast<std::int64_t>(paragraph->text.size());
    }
  }
  for (std::size_t i = 0; i < documents.size(); ++i) {
    std::string kept;
    for (const auto& paragraph : all[i])
      if (paragraph.kept) kept += paragraph.text;
    const std::size_t before = documents[i].text.size();
    if (3 * kept.size() < before) kept.clear();
    documents[i].text = std::move(kept);
  }
  result.removed_documents = static_cast<std::int64_t>(
      std::erase_if(documents, [](const Document& document) { return document.text.empty(); }));
  return result;
}

double paragraph_overlap(std::span<const std::string_view> reference,
                         std::span<const std::string_view> probe) {
  HashSet seen;
  Shingles shingles;
  for (const auto text : reference)
    for (const auto paragraph : paragraphs_of(text)) {
      shingles.read(paragraph);
      if (shingles.comparable()) remember(seen, shingles);
    }
  std::int64_t total = 0, known = 0;
  for (const auto text : probe)
    for (const auto paragraph : paragraphs_of(text)) {
      shingles.read(paragraph);
      if (!shingles.comparable()) continue;
      ++total;
      known += mostly_known(seen, shingles);
    }
  return total ? static_cast<double>(known) / static_cast<double>(total) : 0.0;
}

}  // namespace penstock
