// The identity of a run's configuration: two runs with the same hash would do the same work.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "penstock/base/config_node.h"
#include "penstock/finetune/config.h"

namespace penstock::study {

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
std::uint64_t fnv1a(std::string_view text);

/// 16 hex digits over what a resolved recipe says beyond the defaults, with the corpus's path
/// replaced by its content's hash. A key that the recipe leaves at its default does not count, so a
/// new key that changes nothing by default leaves earlier hashes as they were; a default whose
/// value changes needs a new key, or earlier results would pass for the new ones. A part's options
/// are compared with those that the method gives it.
///
/// Left out is what no bit of a result depends on (result_settings). The seed counts, and so do
/// eval_every and eval_tokens: training is the same, but not the validation curve.
std::string config_hash(const ConfigNode& resolved, const std::string& corpus_hash);

/// 16 hex digits over a fine-tuning's settings, the format of its data and the checkpoint that it
/// begins with; the data are compared by what the run says. As above, a later key at its default
/// leaves earlier hashes as they were.
std::string finetuning_hash(const FinetuneConfig& config, const std::string& format,
                            const std::string& checkpoint);

/// The tree as "a.b.c" → TOML text of the value.
std::map<std::string, std::string> flatten(const ConfigNode& root);

/// A flattened value without a string's quotes, for people; "" where the key is absent.
std::string plain_setting(const std::map<std::string, std::string>& flat, const std::string& key);

}  // namespace penstock::study
