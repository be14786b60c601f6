// The keys of OpenAI's, llama.cpp's and vLLM's interfaces whose features this server does not have.
// A value that changes nothing is accepted, because clients send it by default.
#pragma once

#include "penstock/serve/object_reader.h"

namespace penstock::serve {

/// Whether the value is an empty object or array. Some languages write both as "[]".
bool is_empty(const nlohmann::json& value);

/// Throws RequestError for the first key of a request that asks for a missing feature.
void refuse_missing_features(ObjectReader& request);
/// The same for the keys of a chat's message.
void refuse_missing_features_of_message(ObjectReader& message);

}  // namespace penstock::serve
