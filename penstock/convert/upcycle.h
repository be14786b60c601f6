// Upcycling: a dense model's directory becomes an MoE's, its feed-forwards the experts, its routers
// random or made of its attention heads. Training it is `penstock train`'s matter, checking it
// `penstock doctor`'s.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/base/file_system.h"
#include "penstock/convert/expert_copies.h"
#include "penstock/convert/head_groups.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// What decides the gates and the size of the logits that training begins with.
enum class UpcycleStart {
  published,  ///< as the method's paper has them, whatever that does to the parent's loss
  /// The result computes what its parent does, where gates that a softmax makes can sum to one:
  /// they do, and routers made of attention heads have their logits scaled to kParentEntropy of an
  /// even choice, so that neither a z-loss nor one expert outweighs the rest. ReLU gates are scaled
  /// to sum to one in the mean over the calibration text, which keeps the size of the outputs and
  /// not the function. A gate of one chosen expert stays the method's.
  parent
};
/// Share of ln E; 1.81 nats of 8 experts. docs/results.md has the measurements behind it.
constexpr double kParentEntropy = 0.87;

struct UpcycleOptions {
  std::string method = "router-upcycling";  ///< a routing method
  std::string scorer;        ///< a scorer, or a method whose scorer is meant; "": the method's
  std::int64_t experts = 8;  ///< E, before granularity
  double k = 2;              ///< active, before granularity
  UpcycleStart start = UpcycleStart::published;
  bool renormalise = false;   ///< gates of the chosen experts sum to one, also when published
  ConfigNode router_options;  ///< laid over the [router] table last
  std::uint64_t seed = 1;

  // Experts.
  std::int64_t granularity = 1;  ///< shards of the feed-forward, in virtual groups
  ShardScale scale = ShardScale::published;
  double noise = 0;               ///< standard deviation of what is added to each expert's weights
  std::int64_t shared_width = 0;  ///< of a shared expert that starts at 0; 0: none
  bool shared_copy = false;       ///< a shared expert that is the feed-forward itself

  // Router Upcycling.
  std::int64_t routers = 0;  ///< m; 0: as experts
  std::int64_t keys = 0;     ///< 0: the larger of routers and experts
  std::string pool;          ///< "sum", "max"; "": the method's
  bool collapsed = false;    ///< train the one matrix that the mixture folds into
  std::string calibration;   ///< corpus or text file
  std::int64_t calibration_tokens = 65536;
  std::int64_t calibration_window = 0;  ///< tokens; 0: the parent's context, at most 512
  bool keys_after_rope = false, key_bias = true, query_bias = false;

  // Controls.
  bool match_logits = false;  ///< a random linear router with Router Upcycling's logit scale
  double lr_scale = 1;        ///< of the routers' learning rate
  bool match_lr = false;      ///< lr_scale by the estimate of effective_lr_scale

  /// Mean entropy in nats of each router's softmax over the calibration text, to which its logits
  /// are scaled; 0: as options.start says.
  double start_entropy = 0;

  std::string dtype;  ///< "f32", "f16", "bf16" of all but the routers; "": the parent's
};

/// How a router's logits were scaled.
struct LogitScale {
  double entropy_before = 0;  ///< nats, mean over calibration tokens
  double factor = 1;
};

/// What was done, for people and for upcycling.json.
struct UpcycleReport {
  ModelConfig config;
  std::vector<HeadGroups> groups;      ///< per layer; empty where no heads were grouped
  std::vector<at::Tensor> similarity;  ///< per layer [H, H] f64
  std::vector<std::int64_t> tied;      ///< per layer, keys equal to another's, told apart by noise
  std::vector<double> logit_sd;        ///< per layer, where logits were matched
  std::vector<LogitScale> logit_scales;  ///< per layer, where options.start_entropy asked for it
  /// Per layer, what a token's gates summed to in the mean before they were scaled, if they were;
  /// where measures_gate_sums() and there was a text.
  std::vector<double> gate_sums;
  double lr_scale = 1;
  double shard_scale = 1;  ///< a
  std::int64_t calibration_tokens = 0, calibration_window = 0;
  std::string without_tokenizer;  ///< why none was copied; "": it was
  std::uint64_t bytes = 0;
};

/// The options with what `start` means for this method filled in; the same again when repeated.
UpcycleOptions with_start(UpcycleOptions options);

/// The config of the result. Throws Error for options that the method, the scorer or the parent do
/// not take.
ModelConfig upcycled_config(const ModelConfig& parent, const UpcycleOptions& options);

/// Whether the start is to be the parent's and gates need not sum to one, so that it is not quite.
bool measures_gate_sums(const ModelConfig& config, const UpcycleOptions& options);

/// Writes the MoE model directory `out`, complete or absent: config.json, model.safetensors,
/// tokenizer files, upcycling.json. Experts are the parent's feed-forwards (expert_tensor), all
/// else but the routers is copied bit for bit; routers are F32.
/// The same arguments give the same files. Memory: the parent as a model where text is read,
/// otherwise one tensor at a time.
/// Throws Error where `out` exists, and for everything that upcycled_config refuses.
/// Source: Sparse Upcycling, arXiv:2212.05055; routers see router_start.h.
UpcycleReport upcycle(const ModelSource& parent, const UpcycleOptions& options, FileSystem& fs,
                      const std::string& out);

}  // namespace penstock
