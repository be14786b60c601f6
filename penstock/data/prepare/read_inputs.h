// Reads the inputs of a corpus: their documents, with the texts in a spool. gather_text.h gathers
// the machine's own text instead.
#pragma once

#include <vector>

#include "penstock/data/corpus/documents.h"
#include "penstock/data/prepare/text_spool.h"
#include "penstock/data/stage_progress.h"

namespace penstock {

/// The document with a copy of its text in the spool, where the text lasts as long as the spool.
Document spooled(Document document, TextSpool& texts);

/// The documents of the inputs, in order, with their texts in the spool. Shows a line for each
/// input, and one every few seconds.
/// Throws Error for inputs that share files, because their text would count twice; for an input
/// without text or one that cannot be read (documents.h); and for a literal separator that no file
/// has, because it may be misspelt.
std::vector<Document> read_inputs(const std::vector<DataInput>& inputs, const ReadOptions& options,
                                  TextSpool& texts, StageProgress& progress);

}  // namespace penstock
