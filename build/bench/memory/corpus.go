package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helixbench/figures"

	"helix/backend/embed"
)

// corpus generates texts and vectors similar to those of LoCoMo. It is the embedder of the service;
// queries go through the real model.
type corpus struct {
	*embed.Model
	sigma     float64
	turns     []string
	words     []string
	base      [][]float32
	questions []string
}

// baseTurns is the number of turns that are embedded.
const baseTurns = 600

func readCorpus(dir string, m *embed.Model, sigma float64) *corpus {
	c := &corpus{Model: m, sigma: sigma}
	paths, err := filepath.Glob(filepath.Join(dir, "locomo", "*.json"))
	figures.Check(err)
	slices.Sort(paths)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		figures.Check(err)
		var doc map[string]json.RawMessage
		figures.Check(json.Unmarshal(raw, &doc))
		for _, key := range sortedKeys(doc) {
			var turns []struct {
				Text string `json:"text"`
			}
			if strings.HasPrefix(key, "session_") && json.Unmarshal(doc[key], &turns) == nil {
				for _, t := range turns {
					if t.Text != "" {
						c.turns = append(c.turns, t.Text)
						c.words = append(c.words, strings.Fields(t.Text)...)
					}
				}
			}
		}
		var asked []struct {
			Question string `json:"question"`
			Category int    `json:"category"`
		}
		figures.Check(json.Unmarshal(doc["qa"], &asked))
		for _, q := range asked {
			if q.Category < 5 {
				c.questions = append(c.questions, q.Question)
			}
		}
	}
	if len(c.turns) == 0 {
		figures.Check(fmt.Errorf("no LoCoMo conversation in %s", dir))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(c.turns), func(i, j int) { c.turns[i], c.turns[j] = c.turns[j], c.turns[i] })
	c.base, err = m.Embed(context.Background(), c.turns[:min(baseTurns, len(c.turns))])
	figures.Check(err)
	return c
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// question returns the i-th question. All texts differ, so that none has its vector already.
func (c *corpus) question(i int) string {
	return fmt.Sprintf("%s (%d)", c.questions[i%len(c.questions)], i)
}

// text returns one turn: a real one with a quarter of its words replaced.
func (c *corpus) text(rng *rand.Rand) string {
	ws := strings.Fields(c.turns[rng.IntN(len(c.turns))])
	for i := range ws {
		if rng.IntN(4) == 0 {
			ws[i] = c.words[rng.IntN(len(c.words))]
		}
	}
	return strings.Join(ws, " ")
}

// texts calls fn with n turns; they depend only on the seed.
func (c *corpus) texts(n int, seed uint64, fn func(i int, text string)) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for i := range n {
		fn(i, c.text(rng))
	}
}

// perFile is the number of turns per conversation.
const perFile = 2000

// write writes conversations with n turns in total, in sessions of 20 turns, one day apart.
func (c *corpus) write(dir string, n int, seed uint64) {
	names := []string{"Caroline", "Melanie", "John", "Maria", "Joanna", "Nate", "Tim", "Gina"}
	var doc map[string]any
	var session []map[string]string
	flush := func(end int) {
		if doc == nil {
			return
		}
		raw, err := json.Marshal(doc)
		figures.Check(err)
		figures.Check(os.WriteFile(filepath.Join(dir, fmt.Sprintf("c%d-%06d.json", seed, end)), raw, 0o600))
	}
	c.texts(n, seed, func(i int, text string) {
		at := i % perFile
		if at == 0 {
			flush(i)
			pair := int(seed) + i/perFile
			doc = map[string]any{"sample_id": fmt.Sprintf("bench-%d-%d", seed, i), "speaker_a": names[pair%len(names)], "speaker_b": names[(pair+3)%len(names)]}
		}
		key := fmt.Sprintf("session_%d", at/20+1)
		if at%20 == 0 {
			session = nil
			day := time.Date(2021, 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, i/20%1400)
			doc[key+"_date_time"] = day.Format("3:04 pm on 2 January, 2006")
		}
		who := doc["speaker_a"]
		if at%2 == 1 {
			who = doc["speaker_b"]
		}
		session = append(session, map[string]string{"speaker": who.(string), "dia_id": fmt.Sprintf("D%d:%d", at/20+1, at%20+1), "text": text})
		doc[key] = session
	})
	flush(n)
}

// Embed implements memory.Embedder.
func (c *corpus) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 1 && strings.HasSuffix(texts[0], ")") && strings.Contains(texts[0], "? (") {
		return c.Model.Embed(ctx, texts)
	}
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = c.vector(t)
	}
	return out, ctx.Err()
}

// vector mixes two base vectors and noise, chosen by the text.
func (c *corpus) vector(text string) []float32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	rng := rand.New(rand.NewPCG(h.Sum64(), 3))
	a, b, share := c.base[rng.IntN(len(c.base))], c.base[rng.IntN(len(c.base))], rng.Float32()
	v := make([]float32, len(a))
	noise := c.sigma / math.Sqrt(float64(len(v)))
	sum := 0.0
	for i := range v {
		v[i] = share*a[i] + (1-share)*b[i] + float32(noise*rng.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}
