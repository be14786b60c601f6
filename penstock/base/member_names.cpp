#include "penstock/base/member_names.h"

#include <regex>

namespace penstock {

std::string with_members(const std::string& message,
                         const std::function<std::string(const std::string& member)>& named) {
  static const std::regex member(R"(\boptions\.([a-z][a-z_]*))");
  std::string out;
  auto from = message.begin();
  for (std::sregex_iterator it(message.begin(), message.end(), member), end; it != end; ++it) {
    const std::string text = (*it)[0], name = named((*it)[1]);
    out.append(from, (*it)[0].first);
    out += name.empty() ? text : name;
    from = (*it)[0].second;
  }
  return out.append(from, message.end());
}

}  // namespace penstock
