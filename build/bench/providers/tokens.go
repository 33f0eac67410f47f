package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"helix/backend/providers"
	"helixbench/figures"
)

const countsFile = "../../backend/providers/testdata/tokens.json"

// packVocabularies writes the vocabularies of gpt-tokenizer, as OpenAI publishes them, in the format
// that backend/providers embeds: the number of tokens, and then each token preceded by its length, in
// order of rank.
func packVocabularies() {
	for _, name := range []string{"o200k", "cl100k"} {
		text, err := os.ReadFile("node_modules/gpt-tokenizer/data/" + name + "_base.tiktoken")
		figures.Check(err)
		type token struct {
			bytes []byte
			rank  int
		}
		var tokens []token
		for line := range strings.Lines(string(text)) {
			encoded, rank, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok {
				continue
			}
			b, err := base64.StdEncoding.DecodeString(encoded)
			figures.Check(err)
			n, err := strconv.Atoi(rank)
			figures.Check(err)
			tokens = append(tokens, token{b, n})
		}
		slices.SortFunc(tokens, func(a, b token) int { return cmp.Compare(a.rank, b.rank) })
		raw := binary.AppendUvarint(nil, uint64(len(tokens)))
		for i, t := range tokens {
			if t.rank != i || len(t.bytes) > 255 {
				figures.Check(fmt.Errorf("%s: token %d has the rank %d and %d bytes", name, i, t.rank, len(t.bytes)))
			}
			raw = append(append(raw, byte(len(t.bytes))), t.bytes...)
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		figures.Check(err)
		_, err = z.Write(raw)
		figures.Check(errors.Join(err, z.Close(), os.WriteFile("../../backend/providers/"+name+".gz", packed.Bytes(), 0o644)))
	}
}

// peerCounts is the output of tokens.mjs.
type peerCounts struct {
	Counts [][2]int64
	Ms     []float64
}

func countWithPeer(texts []string, rounds int) (out peerCounts) {
	in, err := json.Marshal(map[string]any{"texts": texts, "rounds": rounds})
	figures.Check(err)
	c := exec.Command("node", "providers/tokens.mjs")
	c.Stdin, c.Stderr = bytes.NewReader(in), os.Stderr
	b, err := c.Output()
	figures.Check(err)
	figures.Check(json.Unmarshal(b, &out))
	return out
}

// countTokens counts the tokens of a text of one MB, taken from this repository's documents,
// alternating with gpt-tokenizer in a separate process, which measures itself. Times are processor
// time.
func countTokens() {
	const rounds = 7
	var text strings.Builder
	for text.Len() < 1_000_000 {
		for _, name := range []string{"ARCHITECTURE.md", "RATIONALE.md", "docs/protocol.md", "docs/glossary.md", "backend/backend.go"} {
			b, err := os.ReadFile("../../" + name)
			figures.Check(err)
			text.Write(b)
		}
	}
	whole := strings.ToValidUTF8(text.String()[:1_000_000], "")
	var s providers.Service
	s.Router = &providers.Router{}
	count := func() int64 {
		r, err := s.CountTokens(context.Background(), providers.CountParams{Model: "openai/gpt-5", Text: whole})
		figures.Check(err)
		return r.Tokens
	}
	own := count()
	var mine []float64
	peer := countWithPeer([]string{whole}, rounds)
	if peer.Counts[0][0] != own {
		figures.Check(fmt.Errorf("we count %d tokens, gpt-tokenizer %d", own, peer.Counts[0][0]))
	}
	for range rounds {
		began := cpu()
		count()
		mine = append(mine, (cpu()-began)/1000)
	}
	slices.Sort(mine)
	slices.Sort(peer.Ms)
	figures.Print("tokens.count", 1000/mine[rounds/2], "MB/s", peer.Ms[rounds/2]/mine[rounds/2], "gpt-tokenizer")
}
