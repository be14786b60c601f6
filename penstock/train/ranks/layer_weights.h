// Weights of layers that a rank holds only while a pass is in the layer (ZeRO's third stage); in
// between it keeps its spans of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "penstock/train/background.h"
#include "penstock/train/ranks/unit_exchange.h"

namespace penstock {

/// A layer's unit, its whole weights, whose memory comes and goes, and this rank's spans of them.
struct LayerUnit {
  ParameterUnit unit;
  std::vector<at::Tensor> weights;  ///< by parameter, each with a memory of its own
  std::vector<Span> spans;          ///< of this rank
  UnitTensors own;                  ///< by span; they count while the weights are not whole
};

/// The ranks go through the same layers in the same order: in each round of parts through all
/// forward, for each pass, and through all backward. While a pass is in a layer, a thread gathers
/// the next one. Weights are written past libtorch, so that what autograd saved of them is valid
/// again when their memory is.
class LayerWeights {
 public:
  /// The weights are whole at first.
  explicit LayerWeights(std::vector<LayerUnit> units);

  /// Connects the ranks; by experts or not.
  void connect(UnitExchange dense, UnitExchange experts);
  /// Before a step of so many rounds with so many passes each: frees all, gathers the first layer.
  void begin(std::size_t rounds, int passes);
  /// Before a pass goes into that layer, forward or backward: waits for its weights, frees those of
  /// the layer before it, gathers those of the next.
  void enter(std::int64_t layer);
  /// Goes through what is left of the step without computing, for the other ranks, and frees all.
  void pass_through();

  /// Makes all weights whole until begin(). Every rank calls it.
  void gather();
  bool whole() const { return whole_; }
  /// Keeps this rank's spans of weights that were written to. REQUIRES: whole().
  void take();

 private:
  std::vector<LayerUnit*> units_of(std::int64_t layer);
  void start_gathering(std::int64_t layer);
  void allocate(const at::Tensor& weight);
  void release(const at::Tensor& weight);
  void free(std::int64_t layer);
  void gather_unit(LayerUnit& unit);

  std::vector<LayerUnit> units_;
  std::vector<std::int64_t> layers_;  // ascending
  // Memory of weights that went, for those that come, by bytes: a heap would be left with gaps.
  std::multimap<std::size_t, at::DataPtr> spare_;
  std::map<std::size_t, std::size_t> most_spare_;  // what two layers have of that size
  UnitExchange dense_, experts_;
  bool whole_ = true;
  std::vector<std::int64_t> order_;  // of the step's passes
  std::size_t next_ = 0;
  Background background_;  // last: its jobs use the others
};

}  // namespace penstock
