package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helix/backend"
	"helix/backend/embed"
	"helix/backend/gateway"
)

var (
	docCommands = regexp.MustCompile("(?s)```sh\n(.*?)\n```(?:\n<!-- (prints|meaning) (.*?) -->)?")
	docLines    = regexp.MustCompile("(?s)```jsonl\n(.*?\n)```")
	docMethods  = regexp.MustCompile("`(memory\\.[a-z_]+)`")
	docWords    = regexp.MustCompile(`"[^"]*"|\S+`)
)

// TestMemoryDocumentation runs every command in docs/memory.md, checks the documented output, and
// that the page lists every method.
func TestMemoryDocumentation(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "memory.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	dir := dataFolder(t)
	if err := os.WriteFile(filepath.Join(dir, "year.jsonl"), []byte(docLines.FindStringSubmatch(text)[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	model, err := embed.Open()
	if err == nil {
		defer model.Release()
	}
	ran := 0
	for _, block := range docCommands.FindAllStringSubmatch(text, -1) {
		printed, last := "", []string(nil)
		for line := range strings.SplitSeq(block[1], "\n") {
			words := docWords.FindAllString(line, -1)
			for i, w := range words {
				if words[i] = strings.Trim(w, `"`); filepath.Ext(w) == ".jsonl" {
					words[i] = filepath.Join(dir, w)
				}
			}
			r := helix(t, filepath.Join(dir, "data"), "", words[1:]...)
			if r.code != 0 {
				t.Errorf("%s: exit %d: %s%s", line, r.code, r.stdout, r.stderr)
			}
			printed, last = r.stdout, words[1:]
			ran++
		}
		if block[2] == "meaning" && err != nil {
			t.Logf("not looked for by meaning: %v", err)
			continue
		}
		for range 50 { // each command embeds some more of the waiting texts, depending on the machine
			if block[2] != "meaning" || strings.Contains(printed, block[3]) {
				break
			}
			printed = helix(t, filepath.Join(dir, "data"), "", last...).stdout
		}
		if !strings.Contains(printed, block[3]) {
			t.Errorf("%s printed %s, the page says %s", block[1], printed, block[3])
		}
	}
	if ran < 10 {
		t.Errorf("%d commands ran: the page is not read as it should be", ran)
	}
	insights, err := os.ReadFile("../../docs/insights.md")
	if err != nil {
		t.Fatal(err)
	}
	text += string(insights)
	named := map[string]bool{}
	for _, m := range docMethods.FindAllStringSubmatch(text, -1) {
		named[m[1]] = true
	}
	a := gateway.NewAPI()
	backend.Register(&backend.Backend{}, a)
	for _, m := range a.Methods() {
		if strings.HasPrefix(m.Name, "memory.") && !named[m.Name] {
			t.Errorf("the page does not tell of %s", m.Name)
		}
		delete(named, m.Name)
	}
	for name := range named {
		if name != "memory.zone" && name != "memory.weights" {
			t.Errorf("there is no method %s", name)
		}
	}
}
