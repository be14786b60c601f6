// Hashes a run's configuration: two runs with the same hash do the same work.
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

/// 16 hex digits over the keys of a resolved recipe that differ from their defaults, with the
/// corpus's path replaced by its content's hash. A key at its default does not count, so earlier
/// hashes stay valid when a key is added that changes nothing by default. If a default's value
/// changes, the key needs a new name; otherwise earlier results would pass for new ones. The
/// defaults of a part's options are those that the method gives it.
///
/// Settings that change no bit of a result are left out (result_settings). The seed counts.
/// eval_every and eval_tokens count too: they leave training unchanged but change the validation
/// curve.
std::string config_hash(const ConfigNode& resolved, const std::string& corpus_hash);

/// 16 hex digits over a fine-tuning's settings, the format of its data and the checkpoint that it
/// begins with. The data's content is not hashed; the run records it for comparison. As above, a
/// new key at its default does not change earlier hashes.
std::string finetuning_hash(const FinetuneConfig& config, const std::string& format,
                            const std::string& checkpoint);

/// The tree as "a.b.c" → TOML text of the value.
std::map<std::string, std::string> flatten(const ConfigNode& root);

/// A flattened value without a string's quotes, for display; "" if the key is absent.
std::string plain_setting(const std::map<std::string, std::string>& flat, const std::string& key);

}  // namespace penstock::study
