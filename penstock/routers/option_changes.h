// Changes of a router's options. A conversion names the effect; this file knows which option of
// which part has that effect. Other options keep their values, the method's values included.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/routers/router_config.h"

namespace penstock {

/// Whether the selector has an option that makes the gates of chosen experts sum to one.
bool can_renormalise(const std::string& selector);
/// Sets that option. REQUIRES: can_renormalise(selector).
void renormalise(RouterConfig& router, const std::string& selector);

/// Turns off a bias that the scorer has by default. A bias that the config or the method names
/// stays.
void leave_out_default_bias(RouterConfig& router, const std::string& scorer);
/// The key that turns the scorer's bias off, such as "model.router.linear.bias"; "" if the scorer
/// has no such key.
std::string bias_key(const RouterConfig& router);
/// Whether training changes a bias of the scorer.
bool learns_bias(const RouterConfig& router);

/// Sizes of a scorer with the trait of_heads. 0 and "" keep the scorer's own values.
struct HeadSizes {
  std::int64_t routers = 0, keys = 0, width = 0;
  std::string pool;        ///< one of the scorer's words
  bool bias = false;       ///< whether query maps have biases
  bool collapsed = false;  ///< whether the product of query maps and keys is trained as one matrix
};
void set_heads(RouterConfig& router, const std::string& scorer, const HeadSizes& sizes);

/// Whether a network generates the router, and can be trained too.
bool generates_routers(const RouterConfig& router);
/// Turns on the training of that network. REQUIRES: generates_routers(router).
void train_network(RouterConfig& router);

}  // namespace penstock
