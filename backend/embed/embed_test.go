package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
	"unsafe"

	"helix/backend/fault"
	"helix/backend/testkit"
)

func embedAll(t testing.TB, m *Model, texts ...string) [][]float32 {
	t.Helper()
	v, err := m.Embed(context.Background(), texts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func dot(a, b []float32) (s float64) {
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

func TestMeaning(t *testing.T) {
	t.Parallel()
	m := model(t)
	if m.ModelID() != "use-lite-512@0.2.0" || m.Dims() != 512 {
		t.Errorf("model %s with %d dimensions", m.ModelID(), m.Dims())
	}
	v := embedAll(t, m, "Where did we eat before the move?", "We had dinner at a restaurant the day before moving.", "The stock market fell sharply.")
	if near, far := dot(v[0], v[1]), dot(v[0], v[2]); near < far+0.2 {
		t.Errorf("the sentence of the same meaning is at %.3f, another at %.3f", near, far)
	}
	for i, x := range v {
		if len(x) != m.Dims() || math.Abs(dot(x, x)-1) > 1e-6 {
			t.Errorf("vector %d has %d dimensions and the length %v", i, len(x), math.Sqrt(dot(x, x)))
		}
	}
}

// TestSameBytes embeds the same texts alone, in calls of other sizes and in parallel.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	m := model(t)
	texts := append(ordinary(t, 24), "", strings.Repeat("a long text of many pieces ", 90))
	want := make([][]float32, len(texts))
	for i, text := range texts {
		want[i] = embedAll(t, m, text)[0]
	}
	check := func(got [][]float32, from int) error {
		for i, v := range got {
			if !slices.Equal(v, want[from+i]) {
				return fmt.Errorf("%.40q has other bytes than alone", texts[from+i])
			}
		}
		return nil
	}
	if err := check(embedAll(t, m, texts...), 0); err != nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for from := g; from < len(texts); from += 5 {
				v, err := m.Embed(context.Background(), texts[from:])
				if err == nil {
					err = check(v, from)
				}
				if err != nil {
					t.Error(err)
				}
				if g == 3 {
					m.Release()
				}
			}
		})
	}
	wg.Wait()
	other, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if err := check(embedAll(t, other, texts...), 0); err != nil {
		t.Error("opened again:", err)
	}
}

func TestEmptyText(t *testing.T) {
	t.Parallel()
	m := model(t)
	if got := m.Tokens(""); len(got) != 0 {
		t.Errorf("pieces %v", got)
	}
	v := embedAll(t, m, "", "x", "")
	if !slices.Equal(v[0], v[2]) || slices.Equal(v[0], v[1]) || math.Abs(dot(v[0], v[0])-1) > 1e-6 {
		t.Error("the empty text has no vector of its own")
	}
	if v := embedAll(t, m); len(v) != 0 {
		t.Errorf("%d vectors for no text", len(v))
	}
}

// TestWindows checks that a long text is the mean of its windows, weighted by their pieces.
func TestWindows(t *testing.T) {
	t.Parallel()
	m := model(t)
	a := strings.TrimSpace(strings.Repeat("the river ", 64))
	b := "the a the a the a"
	if n := len(m.Tokens(a)); n != window {
		t.Fatalf("%d pieces", n)
	}
	whole := m.Tokens(a + " " + b)
	rest := m.Tokens(b)
	if !slices.Equal(whole[window:], rest) {
		t.Fatalf("the second window is %v, want %v", whole[window:], rest)
	}
	v := embedAll(t, m, a, b, a+" "+b)
	want := make([]float32, dims)
	for i := range want {
		want[i] = v[0][i]*window + v[1][i]*float32(len(rest))
	}
	normalize(want)
	if cos, diff := compare(v[2], want); diff > 1e-6 {
		t.Errorf("cosine %v, difference %v", cos, diff)
	}
}

// countdown is a context that ends at its nth check.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	m := model(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if v, err := m.Embed(ctx, []string{"a"}); !errors.Is(err, context.Canceled) || v != nil {
		t.Errorf("%v, %v", v, err)
	}
	// There are 60 windows, and processing may end after each of the first ones.
	long := strings.Repeat("the river ", 64*60)
	for steps := range 4 {
		c := &countdown{Context: context.Background()}
		c.left.Store(int64(steps))
		if _, err := m.Embed(c, []string{long}); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d windows: %v", steps, err)
		}
	}
	if _, err := m.Embed(&countdown{Context: context.Background()}, []string{strings.Repeat("x", 1<<20)}); !errors.Is(err, context.Canceled) {
		t.Errorf("while it is cut into pieces: %v", err)
	}
	if got := embedAll(t, m, "still works"); len(got[0]) != dims {
		t.Error("no vector after a canceled call")
	}
}

func TestLongText(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	m := model(t)
	size := 8 << 10
	if os.Getenv("HELIX_LONG") != "" {
		size = 64 << 10 // maximum size of memory.add
	}
	for _, text := range []string{strings.Repeat("lorem ipsum dolor sit amet ", size/27), strings.Repeat("a", size), strings.Repeat("ﷺ", size/50), strings.Repeat("\u0301", size/2)} {
		if v := embedAll(t, m, text)[0]; math.Abs(dot(v, v)-1) > 1e-6 {
			t.Errorf("%.20q…: length %v", text, dot(v, v))
		}
	}
}

func TestReleaseWhenIdle(t *testing.T) {
	t.Parallel()
	model(t) // skips without one
	synctest.Test(t, func(t *testing.T) {
		m, err := Open()
		if err != nil {
			t.Fatal(err)
		}
		loaded := func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.words != nil
		}
		want := embedAll(t, m, "a sentence")[0]
		time.Sleep(idle - time.Second)
		if !loaded() {
			t.Error("released before its time")
		}
		embedAll(t, m, "another")
		time.Sleep(idle - time.Second)
		if !loaded() {
			t.Error("a call did not put the release off")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if loaded() || len(m.scratch) != 0 {
			t.Error("not released")
		}
		if got := embedAll(t, m, "a sentence")[0]; !slices.Equal(got, want) {
			t.Error("other bytes after loading again")
		}
		m.Release()
		m.Release()
		if loaded() {
			t.Error("Release did nothing")
		}
	})
}

// TestReleaseWaitsForCalls checks that a call keeps the memory it uses.
func TestReleaseWaitsForCalls(t *testing.T) {
	t.Parallel()
	m := model(t)
	_, s := m.acquire()
	m.Release()
	if m.words == nil {
		t.Error("released under a call")
	}
	m.done(s)
	if m.words != nil {
		t.Error("not released after the call")
	}
}

// TestNotCopied checks that the weights are used in place: embedded accesses the internals of
// package embed, which a new version of Go may change.
func TestNotCopied(t *testing.T) {
	t.Parallel()
	m := model(t)
	if !m.weights.inBinary {
		t.Error("the weights are on the heap")
	}
	if unsafe.Pointer(&m.weights.embeddings[0]) != unsafe.Pointer(&m.weights.raw[0]) {
		t.Error("the floats are a copy: the file is not aligned in the binary")
	}
	copied, err := fs.ReadFile(files, "model/weights.bin")
	if err != nil || !bytes.Equal(copied, m.weights.raw) {
		t.Error("the weights are not the file's", err)
	}
	if f := view(copied[4:]); f[0] != m.weights.embeddings[1] {
		t.Error("floats are read wrongly")
	}
}

func TestAllocations(t *testing.T) {
	m := model(t)
	if raced {
		t.Skip("the race detector allocates")
	}
	few, many := []string{"a few words"}, []string{strings.Repeat("many words in a row ", 200)}
	embedAll(t, m, many[0])
	for _, texts := range [][]string{few, many} {
		if n := testing.AllocsPerRun(10, func() { _, _ = m.Embed(context.Background(), texts) }); n > 4 {
			t.Errorf("%v allocations for %d bytes", n, len(texts[0]))
		}
	}
}

// TestDamaged opens damaged models.
func TestDamaged(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine over a large file")
	t.Parallel()
	const message = "The sentence encoder is not in this build. Run make models."
	check := func(name string, dir fs.FS) {
		t.Helper()
		m, err := open(dir)
		if err == nil { // only the hash of the weights is verified later
			_, err = m.Embed(t.Context(), []string{"a"})
			m = nil
		}
		if m != nil || !fault.Is(err, fault.Unavailable) || fault.As(err).Message != message {
			t.Errorf("%s: %v, %v", name, m != nil, err)
		}
	}
	check("empty", fstest.MapFS{})
	check("no JSON", fstest.MapFS{"model/manifest.json": {Data: []byte("{")}})
	model(t)
	good := fstest.MapFS{}
	for _, name := range []string{"manifest.json", "vocab.bin", "weights.bin"} {
		b, err := files.ReadFile("model/" + name)
		if err != nil {
			t.Fatal(err)
		}
		good["model/"+name] = &fstest.MapFile{Data: b}
	}
	if m, err := open(good); err != nil {
		t.Fatal(errors.Unwrap(err))
	} else if m.Release(); !slices.Equal(embedAll(t, m, "on the heap")[0], embedAll(t, model(t), "on the heap")[0]) {
		t.Error("weights on the heap give other bytes")
	}
	with := func(name string, change func([]byte) []byte) fs.FS {
		dir := fstest.MapFS{}
		for k, v := range good {
			dir[k] = v
		}
		dir["model/"+name] = &fstest.MapFile{Data: change(bytes.Clone(good["model/"+name].Data))}
		return dir
	}
	for _, name := range []string{"vocab.bin", "weights.bin"} {
		check("flipped "+name, with(name, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }))
		check("short "+name, with(name, func(b []byte) []byte { return b[:len(b)-1] }))
		gone := fstest.MapFS{}
		for k, v := range good {
			if k != "model/"+name {
				gone[k] = v
			}
		}
		check("without "+name, gone)
	}
	for name, change := range map[string]func(m map[string]any){
		"other model":  func(m map[string]any) { m["model"] = "use-lite-512@0.3.0" },
		"other panels": func(m map[string]any) { m["panelWidth"] = 16 },
		"no tensors":   func(m map[string]any) { delete(m, "tensors") },
		"tensor outside": func(m map[string]any) {
			m["tensors"].([]any)[3].(map[string]any)["offset"] = float64(len(good["model/weights.bin"].Data))
		},
		"tensor of another size": func(m map[string]any) { m["tensors"].([]any)[3].(map[string]any)["len"] = 1.0 },
	} {
		check(name, with("manifest.json", func(b []byte) []byte {
			var m map[string]any
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			change(m)
			out, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}))
	}
}

// FuzzEmbed embeds arbitrary bytes: the vector has length one, so no component is NaN, and it is
// the same for the same bytes.
func FuzzEmbed(f *testing.F) {
	for _, s := range []string{"", "a", "\x00\xff\xfe", "\xed\xa0\x80", "日本 😀 \u202e", "a\u0301\u0301", strings.Repeat("ab ", 100)} {
		f.Add([]byte(s))
	}
	m := model(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			t.Skip()
		}
		v := embedAll(t, m, "first", string(b))
		if d := dot(v[1], v[1]); !(math.Abs(d-1) < 1e-6) {
			t.Errorf("length %v", d)
		}
		if again := embedAll(t, m, string(b)); !slices.Equal(again[0], v[1]) {
			t.Error("other bytes the second time")
		}
	})
}
