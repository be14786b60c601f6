// Recognises the host names and addresses of the loopback interface.
#pragma once

#include <string_view>

namespace penstock {

/// Whether only this machine can reach the host: "localhost" or a numeric loopback address.
inline bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace penstock
