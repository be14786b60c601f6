// Which names and addresses of hosts lead to the loopback.
#pragma once

#include <string_view>

namespace penstock {

/// Whether only this machine reaches the host: "localhost", or a numeric address of the loopback.
inline bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace penstock
