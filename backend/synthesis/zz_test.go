package synthesis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helix/backend/embed"
	"helix/backend/memory/importer"
)

func locomoTexts(t testing.TB, file string) []Text {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Skip(err)
	}
	c, err := importer.ParseLoCoMo(raw, filepath.Base(file), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	m, err := embed.Open()
	if err != nil {
		t.Skip(err)
	}
	var out []Text
	var bodies []string
	for i, x := range c.Turns {
		out = append(out, Text{ID: fmt.Sprintf("t%04d", i), Kind: "turn", Parent: "c", Speaker: x.Speaker, Body: x.Text, At: *x.At, Salience: 0.5})
		bodies = append(bodies, x.Text)
	}
	for i := 0; i < len(bodies); i += 64 {
		v, err := m.Embed(context.Background(), bodies[i:min(i+64, len(bodies))])
		if err != nil {
			t.Fatal(err)
		}
		for k := range v {
			out[i+k].Vector = v[k]
		}
	}
	return out
}

func TestZZ(t *testing.T) {
	files, _ := filepath.Glob("/work/shared/data/locomo/*.json")
	for _, f := range files {
		if want := os.Getenv("ONLY"); want != "" && !strings.Contains(f, want) {
			continue
		}
		texts := locomoTexts(t, f)
		begin := time.Now()
		last, stage := begin, ""
		a, err := Local{}.Analyze(context.Background(), Input{Type: Full, Texts: texts, Threshold: 0.7}, func(s string, p float64) {
			if s != stage {
				fmt.Printf("  [%s %.2fs]", stage, time.Since(last).Seconds())
				last, stage = time.Now(), s
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\n%s %d texts %.2fs %s %v\n", filepath.Base(f), len(texts), time.Since(begin).Seconds(), a.Summary, a.Warnings)
		types := map[string]int{}
		for _, p := range a.Patterns {
			if p.Confidence < 0.7 {
				types["<"+p.Type]++
				if os.Getenv("ALL") == "" {
					continue
				}
			}
			types[p.Type]++
			fmt.Printf("%.2f %-20s %s | %d\n", p.Confidence, p.Type, p.Description, len(p.Evidence))
			if os.Getenv("QUOTES") != "" {
				for _, e := range p.EvidenceDetail[:min(3, len(p.EvidenceDetail))] {
					fmt.Println("        ", e.Quote)
				}
			}
		}
		fmt.Println(types)
	}
}
