#include "penstock/base/config_origin.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace penstock {
namespace {

struct NamedKey {
  std::size_t position;  // in the message
  std::string path, origin, text;
};

bool belongs_to_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}

/// Position of `path` in the text as a whole key, not as part of a longer key; npos if absent.
std::size_t find_key(const std::string& text, const std::string& path) {
  for (auto at = text.find(path); at != std::string::npos; at = text.find(path, at + 1)) {
    const auto end = at + path.size();
    const bool opens = at == 0 || (!belongs_to_key(text[at - 1]) && text[at - 1] != '.');
    const bool goes_on = end < text.size() &&
                         (belongs_to_key(text[end]) || (text[end] == '.' && end + 1 < text.size() &&
                                                        belongs_to_key(text[end + 1])));
    if (opens && !goes_on) return at;
  }
  return std::string::npos;
}

/// The value of a text, such as a path; "" for other types.
std::string text_of(const ConfigNode& node) {
  const auto* text = std::get_if<std::string>(&node.value());
  return text ? *text : "";
}

/// The length of the message's opening "KEY = TEXT" where the key's origin, an override, says the
/// same; otherwise 0.
std::size_t repeated_opening(const NamedKey& key, const std::string& message) {
  const std::string opening = key.path + " = " + key.text;
  const bool overridden = key.origin.find(key.path + "=") != std::string::npos;
  if (key.text.empty() || !overridden || !message.starts_with(opening)) return 0;
  // The text may go on: train.init_from = RUN/checkpoints/step-9, where RUN was given.
  const bool ends = message.size() == opening.size() || message[opening.size()] == ' ' ||
                    message[opening.size()] == ':';
  return ends ? opening.size() : 0;
}

/// Adds the keys below `node` that the message names. Returns true if the message begins with the
/// origin of a key.
bool collect(const ConfigNode& node, const std::string& path, const std::string& message,
             std::vector<NamedKey>& named) {
  if (!node.origin().empty() && message.starts_with(node.origin() + ": ")) return true;
  // One word alone ("name") could be any word of a sentence.
  if (path.find('.') != std::string::npos && !node.origin().empty())
    if (const auto position = find_key(message, path); position != std::string::npos)
      named.push_back({position, path, node.origin(), text_of(node)});
  if (!node.is_table()) return false;
  return std::ranges::any_of(node.table(), [&](const auto& entry) {
    return collect(entry.second, path.empty() ? entry.first : path + "." + entry.first, message,
                   named);
  });
}

}  // namespace

std::string origin_of(const ConfigNode& node) {
  if (!node.origin().empty() || !node.is_table()) return node.origin();
  for (const auto& [key, child] : node.table())
    if (std::string origin = origin_of(child); !origin.empty()) return origin;
  return "";
}

std::string with_origins(const ConfigNode& root, const std::string& message) {
  std::vector<NamedKey> named;
  if (collect(root, "", message, named) || named.empty()) return message;
  std::ranges::sort(named, {}, &NamedKey::position);
  const std::size_t repeated = repeated_opening(named[0], message);
  std::string out = named[0].origin + (repeated > 0 ? "" : ": ") + message.substr(repeated), others;
  for (const auto& key : named)
    if (key.origin != named[0].origin)
      others += (others.empty() ? "" : ", ") + key.path + ": " + key.origin;
  return others.empty() ? out : out + " (" + others + ")";
}

}  // namespace penstock
