"""Build an ONNX graph of a BERT sentence encoder from the model's own weights while loading it.

There is nothing to export, cache or download: the graph is a few kilobytes that refer to the weights by
name, and onnxruntime gets the weights from memory. A batch holds texts of one length, so there is no
padding and no attention mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

__all__ = ["BertConfig", "Graph", "Precision", "bert_graph"]

Weights = Mapping[str, NDArray[Any]]
Precision = Literal["float32", "int8"]

_OPSETS = {"": 17, "com.microsoft": 1}
_IR_VERSION = 8
_TINY = np.finfo(np.float32).tiny
_ELEMENTS = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8}


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The shape of the encoder: what the graph depends on besides the weights."""

    layers: int
    heads: int
    epsilon: float
    pooling: Literal["mean", "cls"]


@dataclass(frozen=True, slots=True)
class Graph:
    """A serialised model, and the arrays for its initializers by name."""

    model: bytes
    weights: Mapping[str, NDArray[Any]]


def bert_graph(weights: Weights, config: BertConfig, precision: Precision) -> Graph:
    """The encoder from `input_ids`, int64 `[texts, length]`, to `embedding`, float32 `[texts, dimensions]`.

    With `int8`, the weights of all linear layers are rounded to 8 bits, with one scale per output, and
    their inputs are rounded at run time, with one scale per word piece (dynamic quantization).

    Args:
        weights: the weights of a `BertModel`, by their names in its `model.safetensors`.
        config: the shape of the encoder.
        precision: the precision of the linear layers.

    Raises:
        KeyError: a weight is missing.
    """
    graph = _Builder(weights, precision)
    hidden = _embed(graph, config)
    for layer in range(config.layers):
        hidden = _layer(graph, hidden, f"encoder.layer.{layer}", config)
    if config.pooling == "mean":
        graph.node("ReduceMean", [hidden], output="embedding", axes=[1], keepdims=0)
    else:
        graph.node("Gather", [hidden, graph.constant("first", 0)], output="embedding", axis=1)
    return graph.finish(weights["embeddings.word_embeddings.weight"].shape[1])


def _embed(graph: _Builder, config: BertConfig) -> str:
    """The sum of the embeddings of words, positions and the only token type, normalised."""
    words = graph.node("Gather", [graph.weight("embeddings.word_embeddings.weight"), "input_ids"])
    types = graph.weights["embeddings.token_type_embeddings.weight"][0]
    positions = graph.weights["embeddings.position_embeddings.weight"] + types
    length = graph.node("Shape", ["input_ids"], start=1, end=2)
    start, axis = graph.constant("start", [0]), graph.constant("axis", [0])
    here = graph.node("Slice", [graph.array("positions", positions), start, length, axis])
    return graph.normalized_sum(words, here, "embeddings.LayerNorm", config.epsilon)


def _layer(graph: _Builder, hidden: str, name: str, config: BertConfig) -> str:
    """One layer: self-attention and feed-forward, each added to its input and normalised."""
    three = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    query, key, value = graph.split(graph.linear(hidden, three), 3)
    attended = graph.node(
        "MultiHeadAttention", [query, key, value], domain="com.microsoft", num_heads=config.heads
    )
    out = f"{name}.attention.output"
    mixed = graph.normalized_sum(
        graph.linear(attended, [f"{out}.dense"]), hidden, f"{out}.LayerNorm", config.epsilon
    )
    inner = graph.node("Gelu", [graph.linear(mixed, [f"{name}.intermediate.dense"])], domain="com.microsoft")
    outer = graph.linear(inner, [f"{name}.output.dense"])
    return graph.normalized_sum(outer, mixed, f"{name}.output.LayerNorm", config.epsilon)


class _Builder:
    """Collects nodes in order, and the arrays they use."""

    def __init__(self, weights: Weights, precision: Precision) -> None:
        self.weights = weights
        self._precision = precision
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._arrays: dict[str, NDArray[Any]] = {}

    def node(self, kind: str, inputs: list[str], *, output: str | None = None, **attributes: Any) -> str:
        output = output or f"{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def split(self, value: str, parts: int) -> list[str]:
        outputs = [f"{value}_{part}" for part in range(parts)]
        self._nodes.append(helper.make_node("Split", [value], outputs, axis=-1))
        return outputs

    def normalized_sum(self, left: str, right: str, name: str, epsilon: float) -> str:
        inputs = [
            self.node("Add", [left, right]),
            self.weight(f"{name}.weight"),
            self.weight(f"{name}.bias"),
        ]
        return self.node("LayerNormalization", inputs, axis=-1, epsilon=epsilon)

    def linear(self, value: str, names: list[str]) -> str:
        """Linear layers with the same input, computed as one product with their outputs side by side."""
        matrix = np.concatenate([self.weights[f"{name}.weight"] for name in names]).T
        shift = np.concatenate([self.weights[f"{name}.bias"] for name in names])
        bias = self.array(f"{names[0]}.bias", shift)
        if self._precision == "float32":
            return self.node("Add", [self.node("MatMul", [value, self.array(names[0], matrix)]), bias])
        scale = np.maximum(np.abs(matrix).max(axis=0), _TINY) / np.float32(127)
        rounded = self.array(names[0], np.rint(matrix / scale).astype(np.int8))
        # onnxruntime uses one scale for all inputs of a product, so scale each word piece to 1 first.
        most = self.node("ReduceMax", [self.node("Abs", [value])], axes=[-1], keepdims=1)
        most = self.node("Max", [most, self.array("tiny", np.array(_TINY))])
        inputs = [self.node("Div", [value, most]), rounded, self.array(f"{names[0]}.scale", scale)]
        product = self.node("DynamicQuantizeMatMul", inputs, domain="com.microsoft")
        return self.node("Add", [self.node("Mul", [product, most]), bias])

    def weight(self, name: str) -> str:
        return self.array(name, self.weights[name])

    def array(self, name: str, values: NDArray[Any]) -> str:
        self._arrays[name] = np.ascontiguousarray(values)
        return name

    def constant(self, name: str, value: int | list[int]) -> str:
        shape = [] if isinstance(value, int) else [len(value)]
        self._constants.append(helper.make_tensor(name, TensorProto.INT64, shape, np.atleast_1d(value)))
        return name

    def finish(self, dimensions: int) -> Graph:
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "length"])],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", dimensions])],
            [*self._constants, *(_external(name, values) for name, values in self._arrays.items())],
        )
        opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        return Graph(model.SerializeToString(), self._arrays)


def _external(name: str, values: NDArray[Any]) -> onnx.TensorProto:
    """An initializer without its values."""
    tensor = TensorProto(
        name=name, dims=values.shape, data_type=_ELEMENTS[str(values.dtype)], data_location="EXTERNAL"
    )
    tensor.external_data.add(key="location", value="memory")
    return tensor
