#include "penstock/data/prepare/most_bytes.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

/// The documents of a domain that may be left out, by their indices.
struct Members {
  std::vector<std::size_t> places;
  std::int64_t bytes = 0;
};

bool held_out(const Document& document) {
  return document.split.has_value() && *document.split != Split::kTrain;
}

std::map<std::string, Members> members_by_domain(const std::vector<Document>& documents) {
  std::map<std::string, Members> out;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (held_out(documents[i])) continue;
    Members& members = out[documents[i].domain];
    members.places.push_back(i);
    members.bytes += std::ssize(documents[i].text);
  }
  return out;
}

}  // namespace

std::vector<std::string> keep_most_bytes(std::vector<Document>& documents, std::int64_t bytes,
                                         std::uint64_t seed) {
  PENSTOCK_ASSERT(bytes > 0, "bytes = ", bytes);
  auto domains = members_by_domain(documents);
  std::int64_t all = 0, kept = 0;
  for (const auto& [name, members] : domains) all += members.bytes;
  if (all <= bytes) return {};
  std::vector<std::string> notes;
  std::set<std::size_t> left_out;
  for (auto& [name, members] : domains) {
    shuffle(members.places, seed, xxh64(bytes_of(name)));
    auto room = static_cast<std::int64_t>(
        static_cast<double>(bytes) * static_cast<double>(members.bytes) / static_cast<double>(all));
    bool any = false;
    for (const std::size_t place : members.places) {
      const std::int64_t size = std::ssize(documents[place].text);
      if (size > room) {
        left_out.insert(place);
        continue;
      }
      any = true;
      room -= size;
      kept += size;
    }
    if (!any) notes.push_back(fmt::format("domain {} dropped: none of its documents fits", name));
  }
  PENSTOCK_CHECK(kept > 0, "no document is small enough for options.most_bytes = ", bytes,
                 "; allow more, or divide the text into documents with a separator");
  notes.push_back(fmt::format("{} of {} bytes of text are taken", kept, all));
  std::size_t place = 0;
  std::erase_if(documents, [&](const Document&) { return left_out.contains(place++); });
  return notes;
}

}  // namespace penstock
