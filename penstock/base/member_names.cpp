#include "penstock/base/member_names.h"

#include <regex>

namespace penstock {
namespace {

/// `message` with `named(first group)` in place of each match, unless that is "".
std::string replaced(const std::string& message, const std::regex& name,
                     const std::function<std::string(const std::string&)>& named) {
  std::string out;
  auto from = message.begin();
  for (std::sregex_iterator it(message.begin(), message.end(), name), end; it != end; ++it) {
    const std::string text = (*it)[0], other = named((*it)[1]);
    out.append(from, (*it)[0].first);
    out += other.empty() ? text : other;
    from = (*it)[0].second;
  }
  return out.append(from, message.end());
}

}  // namespace

std::string with_members(const std::string& message,
                         const std::function<std::string(const std::string& member)>& named) {
  static const std::regex member(R"(\boptions\.([a-z][a-z_]*))");
  return replaced(message, member, named);
}

std::string with_model_keys(const std::string& message,
                            const std::function<std::string(const std::string& key)>& named) {
  static const std::regex key(R"(\b(model(?:\.[a-z][a-z0-9_-]*)+))");
  return replaced(message, key, named);
}

}  // namespace penstock
