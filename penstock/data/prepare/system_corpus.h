// The system corpus: text that a Debian machine with the build dependencies already has, in several
// domains. It needs no download and is the same each time on the same machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "penstock/data/corpus/documents.h"

namespace penstock {

struct SystemCorpusOptions {
  std::uint64_t seed = 0;
  /// The most bytes to read of each domain, in whole files chosen by the seed.
  std::uint64_t domain_bytes = 12 << 20;
  /// Folder below which all text is searched.
  std::filesystem::path root = "/";
};

/// The names of all domains, in the order in which they are read.
std::vector<std::string> system_domains();

/// Documents of the domains cpp (C++ library headers), perl (modules), perl-manual (their POD),
/// cmake (modules and help), python (the standard and installed libraries) and prose (licences,
/// changelogs, READMEs, package descriptions), each in an order drawn from the seed. A domain
/// without files on the machine is absent. Files that are links, unreadable, or not UTF-8 are
/// skipped.
std::vector<Document> read_system_documents(const SystemCorpusOptions& options);

}  // namespace penstock
