// Makes the model that a study's run begins with: an existing model, copied or upcycled.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include "penstock/base/config_node.h"

namespace penstock::study {

/// Puts the model at `model` into `directory`. `model` is any model, or a run's folder, which means
/// its newest checkpoint. If `upcycle` is not empty, penstock/convert makes an MoE of that model
/// first. The keys of `upcycle` are those of `penstock upcycle`; the calibration text is the
/// recipe's corpus unless they name another; the recipe's seed seeds the draws. Throws Error as
/// upcycling does.
/// @param force  make the model even if it needs more memory or disk than there is
/// @param key_folder  caches mean keys for runs that begin with the same model and text
void begin_with(const std::string& model, const ConfigNode& upcycle, const ConfigNode& resolved,
                const std::string& directory, const std::filesystem::path& key_folder, bool force,
                std::FILE* progress);

/// Hash of a calibration text, in 16 digits: the corpus's own, or XXH64 of a file's bytes. Throws
/// Error if there is no such text. Cost: reads a file once.
std::string text_content_hash(const std::string& text);

}  // namespace penstock::study
