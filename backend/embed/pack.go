package embed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"helix/backend/fault"
	"helix/backend/kernel"
)

// weights are the parameters of the encoder. The large ones are views of the file in the binary.
type weights struct {
	embeddings []float32 // twice the vector of each piece
	timing     []float32 // added at each position of a window
	layers     [2]layer
	hidden     linear
	empty      [dims]float32 // the vector of a text without pieces

	raw      []byte // weights.bin
	vocab    []byte // vocab.bin
	inBinary bool   // raw is part of the program, not of the heap
}

// linear is y = x·w + bias.
type linear struct {
	w, bias []float32 // w in the panels of package kernel
	in, out int
}

// layerNorm normalizes each row to mean 0 and variance 1, then scales and shifts it.
type layerNorm struct{ scale, shift []float32 }

type layer struct {
	norm    layerNorm
	qkv     linear
	out     linear
	widen   linear // of the first layer only: expands its input to the width of its output
	ffnNorm layerNorm
	up      linear
	down    linear
}

type manifest struct {
	Model      string `json:"model"`
	Dims       int    `json:"dims"`
	PanelWidth int    `json:"panelWidth"`
	Files      map[string]struct {
		Size   int    `json:"size"`
		SHA256 string `json:"sha256"`
	} `json:"files"`
	Tensors []struct {
		Name   string `json:"name"`
		Shape  []int  `json:"shape"`
		Offset int    `json:"offset"`
		Len    int    `json:"len"`
	} `json:"tensors"`
}

func open(dir fs.FS) (*Model, error) {
	w, sum, err := load(dir)
	if err == nil {
		_, err = parseVocab(w.vocab)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return &Model{
		weights: w, scratch: make([]*scratch, 0, runtime.GOMAXPROCS(0)),
		check: sync.OnceValue(func() error {
			if err := checkHash("weights.bin", w.raw, sum); err != nil {
				return unavailable(err)
			}
			return nil
		}),
	}, nil
}

func unavailable(err error) error {
	return fault.Unavailablef("The sentence encoder is not in this build. Run make models.").WithCause(err)
}

// load reads the model, and returns the hash that weights.bin must have. It does not verify the
// hash, because that takes longer than everything else in a command that embeds nothing.
func load(dir fs.FS) (_ *weights, sum string, _ error) {
	doc, err := fs.ReadFile(dir, "model/manifest.json")
	if err != nil {
		return nil, "", err
	}
	var man manifest
	if err := json.Unmarshal(doc, &man); err != nil {
		return nil, "", fmt.Errorf("read manifest.json: %w", err)
	}
	if man.Model != modelID || man.Dims != dims || man.PanelWidth != kernel.PanelWidth {
		return nil, "", fmt.Errorf("manifest.json is of model %s with %d dimensions in panels of %d; want %s, %d, %d",
			man.Model, man.Dims, man.PanelWidth, modelID, dims, kernel.PanelWidth)
	}
	w := &weights{}
	if w.vocab, _, err = readSized(dir, "vocab.bin", man); err != nil {
		return nil, "", err
	}
	if err := checkHash("vocab.bin", w.vocab, man.Files["vocab.bin"].SHA256); err != nil {
		return nil, "", err
	}
	if w.raw, w.inBinary, err = readSized(dir, "weights.bin", man); err != nil {
		return nil, "", err
	}
	r := reader{tensors: map[string][]float32{}}
	floats := view(w.raw)
	for _, t := range man.Tensors {
		if t.Offset%4 != 0 || t.Offset < 0 || t.Len < 0 || t.Offset/4+t.Len > len(floats) {
			return nil, "", fmt.Errorf("manifest.json: tensor %q lies outside weights.bin", t.Name)
		}
		r.tensors[t.Name] = floats[t.Offset/4:][:t.Len:t.Len]
	}
	const wide = 1536
	w.embeddings = r.take("embeddings", 8002*inner)
	w.timing = r.take("timing", window*inner)
	w.layers[0] = layer{
		norm: r.norm("0/", inner), qkv: r.linear("0/qkv", inner, 3*inner), out: r.linear("0/out", inner, dims),
		widen: r.linear("0/widen", inner, dims), ffnNorm: r.norm("0/ffn ", dims),
		up: r.linear("0/up", dims, wide), down: r.linear("0/down", wide, dims),
	}
	w.layers[1] = layer{
		norm: r.norm("1/", dims), qkv: r.linear("1/qkv", dims, 3*dims), out: r.linear("1/out", dims, dims),
		ffnNorm: r.norm("1/ffn ", dims), up: r.linear("1/up", dims, wide), down: r.linear("1/down", wide, dims),
	}
	w.hidden = r.linear("hidden", dims, dims)
	if r.err != nil {
		return nil, "", r.err
	}
	// A sentence without pieces is zero at the last layer, so only the bias remains.
	for i, b := range w.hidden.bias {
		w.empty[i] = float32(math.Tanh(float64(b)))
	}
	normalize(w.empty[:])
	return w, man.Files["weights.bin"].SHA256, nil
}

// readSized returns the content of a file after checking its size against the manifest.
func readSized(dir fs.FS, name string, man manifest) (b []byte, inBinary bool, err error) {
	if b, inBinary, err = bytesOf(dir, "model/"+name); err != nil {
		return nil, false, err
	}
	if want := man.Files[name].Size; len(b) != want {
		return nil, false, fmt.Errorf("%s has %d bytes, want %d", name, len(b), want)
	}
	return b, inBinary, nil
}

func checkHash(name string, content []byte, want string) error {
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
		return fmt.Errorf("%s has the hash %x, want %s", name, sum, want)
	}
	return nil
}

// reader reads tensors by name and keeps the first error.
type reader struct {
	tensors map[string][]float32
	err     error
}

func (r *reader) take(name string, n int) []float32 {
	t := r.tensors[name]
	if len(t) != n && r.err == nil {
		r.err = fmt.Errorf("manifest.json: tensor %q has %d floats, want %d", name, len(t), n)
	}
	return t
}

func (r *reader) norm(prefix string, n int) layerNorm {
	return layerNorm{r.take(prefix+"scale", n), r.take(prefix+"shift", n)}
}

func (r *reader) linear(name string, in, out int) linear {
	return linear{w: r.take(name, kernel.PackedLen(in, out)), bias: r.take(name+" bias", out), in: in, out: out}
}

// view converts b to little-endian floats: without a copy if the machine is little-endian
// and b is aligned.
func view(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	little := binary.NativeEndian.Uint16([]byte{1, 0}) == 1
	if p := unsafe.Pointer(unsafe.SliceData(b)); little && uintptr(p)%unsafe.Alignof(float32(0)) == 0 {
		return unsafe.Slice((*float32)(p), len(b)/4)
	}
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}
