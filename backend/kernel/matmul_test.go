package kernel

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

type operands struct {
	m, k, n, lda, ldc int
	a, b, c           []float32 // b is packed
	relu              bool
}

func randomOperands(r *rand.Rand, scale float32) operands {
	p := operands{m: 1 + r.IntN(40), k: 1 + r.IntN(300), n: 1 + r.IntN(100), relu: r.IntN(2) == 0}
	p.lda, p.ldc = p.k+r.IntN(5), roundUp(p.n)+r.IntN(5)
	fill := func(n int) []float32 {
		at := r.IntN(4) // unaligned
		v := make([]float32, n+at)[at:]
		for i := range v {
			v[i] = (2*r.Float32() - 1) * scale
		}
		return v
	}
	p.a, p.c = fill(p.m*p.lda), fill(p.m*p.ldc)
	p.b = fill(PackedLen(p.k, p.n))
	if r.IntN(3) == 0 { // as after a rectifier
		for i := range p.a {
			if r.IntN(10) > 0 {
				p.a[i] = 0
			}
		}
	}
	return p
}

// matmul is an implementation of the product; n is a multiple of PanelWidth.
type matmul func(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool)

func (p operands) run(form matmul) []float32 {
	c := slices.Clone(p.c)
	form(c, p.ldc, p.a, p.lda, p.b, p.m, p.k, roundUp(p.n), p.relu)
	return c
}

// exact returns the product in float64, and for each element the sum of the absolute values.
func (p operands) exact() (c, size []float64) {
	c, size = make([]float64, len(p.c)), make([]float64, len(p.c))
	for i, v := range p.c {
		c[i], size[i] = float64(v), math.Abs(float64(v))
	}
	for i := range p.m {
		for j := range roundUp(p.n) {
			at := i*p.ldc + j
			for l := range p.k {
				d := float64(p.a[i*p.lda+l]) * float64(p.b[j/PanelWidth*PanelWidth*p.k+l*PanelWidth+j%PanelWidth])
				c[at] += d
				size[at] += math.Abs(d)
			}
			if p.relu {
				c[at] = max(c[at], 0)
			}
		}
	}
	return c, size
}

// TestMatMul compares every implementation with the product in float64, and the assembly ones with
// each other, which must be bit-for-bit equal.
func TestMatMul(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		scale := float32(math.Pow(10, float64(r.IntN(31)-15)))
		p := randomOperands(r, scale)
		want, size := p.exact()
		near := func(name string, got []float32) {
			t.Helper()
			for i, v := range got {
				// The maximum error of k roundings of half a unit in the last place each.
				if limit := size[i]*float64(p.k+2)*6e-8 + 1e-37; !(math.Abs(float64(v)-want[i]) <= limit) {
					t.Fatalf("%s, %d×%d×%d: element %d is %g, want %g ± %g", name, p.m, p.k, p.n, i, v, want[i], limit)
				}
			}
		}
		chosen := slices.Clone(p.c)
		MatMul(chosen, p.ldc, p.a, p.lda, p.b, p.m, p.k, p.n, p.relu)
		near("chosen", chosen)
		near("go", p.run(productGo))
		for name, form := range matmulForms() {
			got := p.run(form)
			near(name, got)
			if !slices.Equal(got, chosen) {
				t.Fatalf("%s, %d×%d×%d: other bits than the form that is chosen", name, p.m, p.k, p.n)
			}
		}
	}
}

// TestMatMulRows checks that the result for a row is bit-for-bit the same alone and among others.
func TestMatMulRows(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		p := randomOperands(r, 1)
		all := slices.Clone(p.c)
		MatMul(all, p.ldc, p.a, p.lda, p.b, p.m, p.k, p.n, p.relu)
		for i := range p.m {
			row := slices.Clone(p.c[i*p.ldc:][:roundUp(p.n)])
			MatMul(row, p.ldc, p.a[i*p.lda:], p.lda, p.b, 1, p.k, p.n, p.relu)
			if !slices.Equal(row, all[i*p.ldc:][:roundUp(p.n)]) {
				t.Fatalf("row %d of %d×%d×%d differs alone", i, p.m, p.k, p.n)
			}
		}
	}
}

func TestMatMulOfNothing(t *testing.T) {
	t.Parallel()
	MatMul(nil, 0, nil, 0, nil, 0, 3, 3, false)
	MatMul(nil, 0, nil, 0, nil, 3, 3, 0, false)
	c := []float32{1}
	MatMul(c, 1, nil, 0, nil, 1, 0, 1, true)
	if c[0] != 1 {
		t.Error("a product over nothing changed the sum")
	}
}

func TestPackPanels(t *testing.T) {
	t.Parallel()
	const k, n, ld = 3, 40, 41
	src := make([]float32, k*ld)
	for i := range src {
		src[i] = float32(i + 1)
	}
	dst := make([]float32, PackedLen(k, n))
	PackPanels(dst, src, k, n, ld)
	for i := range k {
		for j := range 64 {
			var want float32
			if j < n {
				want = src[i*ld+j]
			}
			if got := dst[j/32*32*k+i*32+j%32]; got != want {
				t.Fatalf("row %d, column %d: %g, want %g", i, j, got, want)
			}
		}
	}
}

// TestMatMulIsGenerated checks that the assembly equals the output of matmul_gen.go.
func TestMatMulIsGenerated(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs the Go command")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "run", "matmul_gen.go", "-out", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"matmul_amd64.s", "matmul_arm64.s"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is not what matmul_gen.go writes (%v): run go generate", name, err)
		}
	}
}

func BenchmarkMatMul(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	const m, k, n = 16, 512, 1536
	fill := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = r.Float32() - 0.5
		}
		return v
	}
	x, y, c := fill(m*k), fill(k*n), fill(m*n)
	for b.Loop() {
		MatMul(c, n, x, k, y, m, k, n, true)
	}
	b.ReportMetric(float64(m*k*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
