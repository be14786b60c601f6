// Weights of layers that a rank holds only while a pass is in the layer (ZeRO stage 3). At other
// times the rank keeps only its spans of the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "penstock/train/background.h"
#include "penstock/train/ranks/unit_exchange.h"

namespace penstock {

/// A layer's unit, its whole weights, and this rank's spans of the weights. The memory of the whole
/// weights is allocated and freed during a step.
struct LayerUnit {
  ParameterUnit unit;
  std::vector<at::Tensor> weights;  ///< by parameter; each has its own storage
  std::vector<Span> spans;          ///< this rank's spans
  UnitTensors own;  ///< this rank's weights by span; used while `weights` are not whole
};

/// All ranks go through the same layers in the same order. In each round of parts, every pass goes
/// forward through all layers, then every pass goes backward through all layers. While a pass is in
/// a layer, a thread gathers the weights of the next layer. Weights are written directly into their
/// memory, without libtorch. So tensors that autograd saved are valid again once the memory is
/// back.
class LayerWeights {
 public:
  /// The weights are whole at first.
  explicit LayerWeights(std::vector<LayerUnit> units);

  /// Sets the exchange of experts' units (`experts`) and that of all other units (`dense`).
  void connect(UnitExchange dense, UnitExchange experts);
  /// Called before a step. Frees all layers and starts to gather the first layer.
  /// @param rounds  of parts in the step;  @param passes  of each part through the layers
  void begin(std::size_t rounds, int passes);
  /// Called before a pass goes into a layer, forward or backward. Waits for the layer's weights,
  /// frees those of the layer that the pass leaves, and starts to gather those of the next layer.
  void enter(std::int64_t layer);
  /// Makes the step's remaining gathers without computing, because the other ranks need this rank
  /// for them. Then frees all layers.
  void pass_through();

  /// Gathers all weights. They stay whole until begin(). Every rank calls it.
  void gather();
  bool whole() const { return whole_; }
  /// Wall time in exchanges so far. REQUIRES: nothing is being gathered.
  double seconds() const { return dense_.seconds() + experts_.seconds(); }
  /// Copies this rank's spans from the whole weights, after these were written to. REQUIRES:
  /// whole().
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
  // Memory of freed weights, by bytes. It is used again, so that the heap gets no gaps.
  std::multimap<std::size_t, at::DataPtr> spare_;
  std::map<std::size_t, std::size_t> most_spare_;  // by bytes, the number that two layers need
  UnitExchange dense_, experts_;
  bool whole_ = true;
  std::vector<std::int64_t> order_;  // the layers that the step's passes enter, in order
  std::size_t next_ = 0;
  Background background_;  // last member: its jobs use the other members
};

}  // namespace penstock
