// Estimates how many tokens a text has before `penstock data prepare` makes them.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

class Tokenizer;

/// About the number of tokens in the text of a file or folder, with prepare()'s default settings.
///
/// Tokens for each byte of text are counted in up to 256 KB of it. Bytes of text are those of all
/// documents, if the files take at most `most_read` bytes on disk. Otherwise 16 files are picked at
/// even distances over the stored bytes, so that a file is picked by its size. With t_i tokens in
/// the b_i bytes that are read of file i, the estimate is (all stored bytes) · mean of t_i / b_i.
/// Of a large file that is not packed, only the beginning is read.
/// @param tokenizer  null: each byte is a token
/// Throws Error where prepare() would refuse what is read.
double expected_tokens(const std::string& path, const Tokenizer* tokenizer,
                       std::uintmax_t most_read = 32 << 20);

}  // namespace penstock
