"""The C++ side of the package; `penstock` wraps it."""
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from torch import Generator, Tensor

__version__: str

class Error(ValueError): ...
class BugError(AssertionError): ...
class DivergedError(Error): ...
class NotPortableError(Error): ...

class Scores:
    logits: Optional[Tensor]
    clean_logits: Optional[Tensor]
    noise_scale: Optional[Tensor]
    penalty: Optional[Tensor]
    choice_bias: Optional[Tensor]
    thresholds: Optional[Tensor]

class Plan:
    tokens: int
    experts: int
    k: float
    token: Optional[Tensor]
    expert: Optional[Tensor]
    weight: Optional[Tensor]
    offsets: Optional[Tensor]
    demand: Optional[Tensor]
    overflow: int
    merge_weights: Optional[Tensor]
    segment_length: int
    merges: bool
    expert_counts: Optional[Tensor]
    sparsity: float

class Routing:
    hidden: Tensor
    plan: Plan
    scores: Scores
    loss: Optional[Tensor]
    loss_terms: Dict[str, Tensor]
    statistics: Dict[str, Tensor]

class Context:
    step: int
    total_steps: int
    training: bool
    k: int
    token_ids: Optional[Tensor]
    sequence_length: int
    layer: int

class Shape:
    d_model: int
    experts: int
    k: float
    granularity: int
    layer: int
    layers: int

class StepStatistics:
    sparsity: float
    expert_tokens: List[List[int]]
    tokens: List[int]

class MoeLayer:
    def forward(self, x: Tensor, *, training: bool, step: int, total_steps: int, k: int, sequence_length: int,
                logit_shift: float, token_ids: Optional[Tensor], generator: Optional[Generator],
                dropout_seed: Optional[int]) -> Tuple[Tensor, Routing]: ...
    def after_step(self) -> None: ...
    def parameters(self) -> List[Tuple[str, Tensor]]: ...
    def buffers(self) -> List[Tuple[str, Tensor]]: ...

class Completion:
    prompt: int
    sample: int
    tokens: List[int]
    text: str
    finish: str

class Loaded:
    path: str
    step: Optional[int]
    config: Dict[str, Any]
    parameters: Tuple[int, int]
    moe_layers: int
    causal: bool
    def logits(self, ids: Tensor, k: int) -> Tensor: ...
    def trace(self, ids: Sequence[int]) -> Dict[str, Tensor]: ...
    def eval_corpus(self, data: str, options: Dict[str, Any]) -> Dict[str, Any]: ...
    def eval_text(self, text: str, options: Dict[str, Any], protocol: str) -> Dict[str, Any]: ...
    def generate(self, prompts: Sequence[Any], options: Dict[str, Any],
                 on_text: Optional[Callable[[int, int, str], Any]]) -> List[Completion]: ...
    def encode(self, text: str) -> List[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...

def routers() -> Dict[str, Any]: ...
def set_threads(threads: int = 0) -> int:
    """Sets the number of threads of torch and of the library, and returns it. 0: the number of physical cores."""
def make_moe_layers(options: Dict[str, Any]) -> List[MoeLayer]: ...
def complete_layer_options(options: Dict[str, Any]) -> Dict[str, Any]: ...
def register_scorer(name: str, factory: Any, options: Dict[str, Any], traits: Dict[str, Any], summary: str,
                    source: str) -> None: ...
def register_balancer(name: str, factory: Any, options: Dict[str, Any], traits: Dict[str, Any], summary: str,
                      source: str) -> None: ...
def load(path: str, tokenizer: str, fold: bool, as_trained: bool) -> Loaded: ...
def train(recipe: Any, out: str, set: Dict[str, Any], on_step: Optional[Callable[[Dict[str, Any]], Any]],
          resume: bool, progress: bool, force: bool) -> bool: ...
def run_study(path: str, out: str, set: Dict[str, Any], scale: str, kept_rows: str, report_only: bool,
              retry_diverged: bool, progress: bool, force: bool) -> Tuple[str, Dict[str, Any], str]: ...
def upcycle(dense: str, out: str, options: Dict[str, Any], router: Dict[str, Any], seed: int, force: bool) -> str: ...
def export(model: str, out: str, sample: str, options: Dict[str, Any]) -> Dict[str, Any]: ...
