package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"helix/backend/kernel"
)

const (
	dims      = 512 // of a sentence's vector
	inner     = 256 // of a piece's vector
	positions = 128 // pieces in a window
	align     = 64  // bytes, of each tensor in the file
)

// tensor is the position of a tensor in weights.bin: at byte Offset, Len floats, little endian.
type tensor struct {
	Name   string `json:"name"`
	Shape  []int  `json:"shape"`
	Packed bool   `json:"packed,omitempty"` // in the panels of kernel.PackPanels
	Offset int    `json:"offset"`
	Len    int    `json:"len"`
}

// The tensors that the encoder needs: our name, and the suffix of the package's name. The graph
// contains more: constants of its own structure, which are code in backend/embed.
var wanted = []struct {
	name, suffix string
	packed       bool
}{
	{"embeddings", "module/Embeddings_en", false},
	{"timing", "TimingSignal/ExpandDims_1", false},
	{"0/scale", "Layer_0/TransformerLayer/layer_prepostprocess/layer_norm/layer_norm_scale", false},
	{"0/shift", "Layer_0/TransformerLayer/layer_prepostprocess/layer_norm/layer_norm_bias", false},
	{"0/qkv", "Layer_0/TransformerLayer/MultiheadAttention/qkv_transform_single/kernel", true},
	{"0/qkv bias", "Layer_0/TransformerLayer/MultiheadAttention/qkv_transform_single/bias", false},
	{"0/out", "Layer_0/TransformerLayer/MultiheadAttention/output_transform_single/kernel", true},
	{"0/out bias", "Layer_0/TransformerLayer/MultiheadAttention/output_transform_single/bias", false},
	{"0/widen", "Layer_0/TransformerLayer/dense/kernel", true},
	{"0/widen bias", "Layer_0/TransformerLayer/dense/bias", false},
	{"0/ffn scale", "Layer_0/TransformerLayer/FFN/layer_prepostprocess/layer_norm/layer_norm_scale", false},
	{"0/ffn shift", "Layer_0/TransformerLayer/FFN/layer_prepostprocess/layer_norm/layer_norm_bias", false},
	{"0/up", "Layer_0/TransformerLayer/FFN/conv1/Tensordot/Reshape_1", true},
	{"0/up bias", "Layer_0/TransformerLayer/FFN/conv1/bias", false},
	{"0/down", "Layer_0/TransformerLayer/FFN/conv2/Tensordot/Reshape_1", true},
	{"0/down bias", "Layer_0/TransformerLayer/FFN/conv2/bias", false},
	{"1/scale", "Layer_1/TransformerLayer/layer_prepostprocess/layer_norm/layer_norm_scale", false},
	{"1/shift", "Layer_1/TransformerLayer/layer_prepostprocess/layer_norm/layer_norm_bias", false},
	{"1/qkv", "Layer_1/TransformerLayer/MultiheadAttention/qkv_transform_single/kernel", true},
	{"1/qkv bias", "Layer_1/TransformerLayer/MultiheadAttention/qkv_transform_single/bias", false},
	{"1/out", "Layer_1/TransformerLayer/MultiheadAttention/output_transform_single/kernel", true},
	{"1/out bias", "Layer_1/TransformerLayer/MultiheadAttention/output_transform_single/bias", false},
	{"1/ffn scale", "Layer_1/TransformerLayer/FFN/layer_prepostprocess/layer_norm/layer_norm_scale", false},
	{"1/ffn shift", "Layer_1/TransformerLayer/FFN/layer_prepostprocess/layer_norm/layer_norm_bias", false},
	{"1/up", "Layer_1/TransformerLayer/FFN/conv1/Tensordot/Reshape_1", true},
	{"1/up bias", "Layer_1/TransformerLayer/FFN/conv1/bias", false},
	{"1/down", "Layer_1/TransformerLayer/FFN/conv2/Tensordot/Reshape_1", true},
	{"1/down bias", "Layer_1/TransformerLayer/FFN/conv2/bias", false},
	{"hidden", "hidden_layers/tanh_layer_0/weights", true},
	{"hidden bias", "hidden_layers/tanh_layer_0/bias", false},
}

type source struct {
	shape  []int
	values []float32
}

func packWeights(doc, raw []byte) ([]byte, []tensor, error) {
	all, err := readWeights(doc, raw)
	if err != nil {
		return nil, nil, err
	}
	var out []byte
	var tensors []tensor
	for _, w := range wanted {
		var found []source
		for name, s := range all {
			if strings.HasSuffix(name, w.suffix) {
				found = append(found, s)
			}
		}
		if len(found) != 1 {
			return nil, nil, fmt.Errorf("model.json: %d tensors end in %s, want 1", len(found), w.suffix)
		}
		s := found[0]
		switch {
		case w.name == "embeddings": // the encoder only ever reads an embedding doubled
			for i := range s.values {
				s.values[i] *= 2
			}
		case w.name == "timing":
			s = timing(s.values)
		case w.packed:
			k, n := s.shape[0], s.shape[1]
			packed := make([]float32, kernel.PackedLen(k, n))
			kernel.PackPanels(packed, s.values, k, n, n)
			s.values = packed
		}
		out = append(out, make([]byte, -len(out)&(align-1))...)
		tensors = append(tensors, tensor{Name: w.name, Shape: s.shape, Packed: w.packed, Offset: len(out), Len: len(s.values)})
		out, err = binary.Append(out, binary.LittleEndian, s.values)
		if err != nil {
			return nil, nil, err
		}
	}
	return out, tensors, nil
}

// readWeights returns the package's float tensors by name, without name parts that only reflect how
// the graph was split, and without dimensions of size 1 before the last two.
func readWeights(doc, raw []byte) (map[string]source, error) {
	var model struct {
		WeightsManifest []struct {
			Weights []struct {
				Name  string
				Shape []int
				Dtype string
			}
		}
	}
	if err := json.Unmarshal(doc, &model); err != nil {
		return nil, fmt.Errorf("model.json: %w", err)
	}
	names := strings.NewReplacer("/ConcatPartitions/concat", "", "/part_0", "")
	all := map[string]source{}
	for _, group := range model.WeightsManifest {
		for _, w := range group.Weights {
			n := 1
			for _, d := range w.Shape {
				n *= d
			}
			if len(raw) < 4*n {
				return nil, fmt.Errorf("model.json: %s is longer than its files", w.Name)
			}
			if w.Dtype == "float32" {
				s := source{shape: w.Shape, values: make([]float32, n)}
				for len(s.shape) > 2 && s.shape[0] == 1 {
					s.shape = slices.Delete(s.shape, 0, 1)
				}
				for i := range s.values {
					s.values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
				}
				all[names.Replace(w.Name)] = s
			}
			raw = raw[4*n:]
		}
	}
	if len(raw) != 0 {
		return nil, fmt.Errorf("model.json: %d bytes of weights without a name", len(raw))
	}
	return all, nil
}

// timing returns what is added for the position of a piece in its window: sine and cosine of the
// position times each of the graph's 128 inverse time scales, rounded as in the graph.
func timing(inverse []float32) source {
	s := source{shape: []int{positions, inner}, values: make([]float32, positions*inner)}
	half := len(inverse)
	for t := range positions {
		row := s.values[t*inner:]
		for i, v := range inverse {
			angle := float64(float32(t) * v)
			row[i], row[half+i] = float32(math.Sin(angle)), float32(math.Cos(angle))
		}
	}
	return s
}
