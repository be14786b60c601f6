#include "penstock/data/prepare/corpus_target.h"

#include <set>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/links.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/data/corpus/token_file_format.h"
#include "penstock/data/tokenizers/tokenizer_files.h"

namespace penstock {

std::filesystem::path corpus_target(const std::string& out) {
  namespace files = std::filesystem;
  PENSTOCK_CHECK(!out.empty(), "say where the corpus goes with options.out");
  // The trailing slash is removed, since a path with it has no file name.
  files::path target = files::absolute(out).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  target = followed(target);
  clean_leftovers_of(real_file_system(), target);
  if (!files::exists(target)) return target;
  const bool replaceable =
      files::is_directory(target) &&
      (files::is_empty(target) || (files::is_regular_file(target / kTokensFile) &&
                                   files::is_regular_file(target / kManifestFile)));
  PENSTOCK_CHECK(replaceable, "'", out,
                 "' exists and is not a corpus; remove it or name another options.out");
  std::set<std::string> own = {kTokensFile, kManifestFile};
  own.insert(kTokenizerFiles.begin(), kTokenizerFiles.end());
  own.insert(kFilesBeside.begin(), kFilesBeside.end());
  for (const auto& entry : files::directory_iterator(target)) {
    const std::string name = entry.path().filename().string();
    PENSTOCK_CHECK(own.contains(name) || token_file::is_shard_name(kTokensFile, name), "'", out,
                   "' holds more than a corpus (", name,
                   "), which replacing it would delete; name another options.out");
  }
  return target;
}

}  // namespace penstock
