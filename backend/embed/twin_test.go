package embed

import (
	"cmp"
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// twinFile names the file that TestVectorsForTwin writes to. If it is not set the test is skipped.
const twinFile = "HELIX_EMBED_TWIN"

func twinTexts(t testing.TB) []string {
	texts := difficult()[:190] // the rest is long
	return append(texts, ordinary(t, 160)...)
}

// TestVectorsForTwin is the part of TestTwin that runs without assembly.
func TestVectorsForTwin(t *testing.T) {
	name := os.Getenv(twinFile)
	if name == "" {
		t.Skip("a part of another test")
	}
	var out []byte
	for _, v := range embedAll(t, model(t), twinTexts(t)...) {
		var err error
		if out, err = binary.Append(out, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(name, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTwin compares with the encoder without assembly: no component differs by more than 1e-5, and
// the ten nearest of each text are equal, except for ties.
func TestTwin(t *testing.T) {
	t.Parallel()
	if testing.Short() || raced {
		t.Skip("builds the package again")
	}
	m := model(t)
	texts := twinTexts(t)
	name := filepath.Join(t.TempDir(), "vectors")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-tags", "purego", "-run", "^TestVectorsForTwin$", ".")
	cmd.Env = append(os.Environ(), twinFile+"="+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(name)
	if err != nil || len(raw) != len(texts)*dims*4 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	ours, twin := embedAll(t, m, texts...), make([][]float32, len(texts))
	largest := 0.0
	for i := range texts {
		twin[i] = make([]float32, dims)
		for j := range twin[i] {
			twin[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*dims+j):]))
		}
		_, diff := compare(ours[i], twin[i])
		largest = max(largest, diff)
		if diff > 1e-5 {
			t.Errorf("%.60q: largest difference %.2g", texts[i], diff)
		}
	}
	for i, text := range texts {
		a, b := nearest(ours, i), nearest(twin, i)
		for r := range a {
			if a[r] != b[r] && math.Abs(dot(ours[i], ours[a[r]])-dot(ours[i], ours[b[r]])) > 1e-6 {
				t.Errorf("%.60q: number %d is %.40q, without assembly %.40q", text, r+1, texts[a[r]], texts[b[r]])
			}
		}
	}
	t.Logf("%d texts: largest difference of a component %.2g", len(texts), largest)
}

// nearest returns the ten vectors nearest to vector i.
func nearest(v [][]float32, i int) []int {
	order := make([]int, len(v))
	scores := make([]float64, len(v))
	for j := range v {
		order[j], scores[j] = j, dot(v[i], v[j])
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	return order[:10]
}
