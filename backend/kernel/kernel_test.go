package kernel

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// twin is one implementation of the kernels; the others are in forms_<arch>_test.go.
type twin struct {
	name  string
	dot   func(a, b []float32) float32
	scan  func(q, codes []uint64, limit int, dist []uint16, near []uint64)
	signs func(dst []uint64, v, mean []float32)
	bytes func(q []int16, rows []int8, out []int32)
}

func twins() []twin {
	chosen := twin{"chosen", Dot, Scan, Signs, DotBytes}
	return append(forms(), twin{"go", dotGo, scanGo, signsGo, dotBytesGo}, chosen)
}

// floats returns n values at an address aligned only to 4 bytes, followed by a guard value that
// would spoil any sum.
func floats(r *rand.Rand, n int, f func() float32) []float32 {
	off := r.IntN(16)
	s := make([]float32, off+n+32)
	for i := range s {
		s[i] = float32(math.NaN())
	}
	s = s[off : off+n : off+n]
	for i := range s {
		s[i] = f()
	}
	return s
}

func words(r *rand.Rand, n int) []uint64 {
	off := r.IntN(8)
	s := make([]uint64, off+n+8)
	for i := range s {
		s[i] = r.Uint64()
	}
	return s[off : off+n : off+n]
}

// exactDot returns the sum in float64, and the sum of the absolute values, to which errors are relative.
func exactDot(a, b []float32) (sum, size float64) {
	for i := range a {
		p := float64(a[i]) * float64(b[i])
		sum += p
		size += math.Abs(p)
	}
	return sum, size
}

func TestDotEqualsPureGo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	kinds := []func() float32{
		func() float32 { return float32(r.NormFloat64()) },
		func() float32 { return float32(r.NormFloat64() * 1e18) },
		func() float32 { return float32(r.NormFloat64() * 1e-18) },
		func() float32 { return float32(math.Ldexp(r.Float64()-0.5, r.IntN(60)-30)) },
		func() float32 { return 0 },
	}
	for n := 1; n <= 2048; n++ {
		f := kinds[n%len(kinds)]
		a, b := floats(r, n, f), floats(r, n, f)
		want, size := exactDot(a, b)
		for _, k := range twins() {
			if got := float64(k.dot(a, b)); math.Abs(got-want) > 1e-5*size+1e-44 {
				t.Fatalf("%s: dot of %d values is %g, want %g", k.name, n, got, want)
			}
		}
	}
	if Dot(nil, nil) != 0 {
		t.Fatal("dot of nothing is not 0")
	}
}

func TestDotRowsIsDotOfEach(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 1))
	norm := func() float32 { return float32(r.NormFloat64()) }
	for range 300 {
		n, rows := 1+r.IntN(700), r.IntN(20)
		stride := n + r.IntN(9)
		q, v := floats(r, n, norm), floats(r, max(0, (rows-1)*stride+n), norm)
		out := floats(r, rows, norm)
		DotRows(q, v, stride, out)
		for i, got := range out {
			if want := Dot(q, v[i*stride:i*stride+n]); got != want {
				t.Fatalf("row %d of %d values is %g, want %g", i, n, got, want)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("rows that are too short were read")
		}
	}()
	DotRows(make([]float32, 8), make([]float32, 15), 8, make([]float32, 2))
}

func TestScanEqualsPureGo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 1))
	for i := range 600 {
		n := 1 + i%70
		if i%50 == 49 {
			n = 1 + r.IntN(1000)
		}
		codes := Group * (1 + r.IntN(4))
		q, block := words(r, n), words(r, n*codes)
		if i%3 == 0 { // the greatest and the smallest possible distance
			for c := range codes {
				for w := range q {
					x := q[w]
					if c%2 == 0 {
						x = ^x
					}
					block[(c/Lanes*n+w)*Lanes+c%Lanes] = x
				}
			}
		}
		limit := 32*n + r.IntN(2*n+1) - n
		if i%5 == 0 {
			limit = []int{-1, 0, 64 * n, 64*n - 1, 1 << 20}[i/5%5]
		}
		for _, k := range twins() {
			dist, near := make([]uint16, codes+4), make([]uint64, codes/Group+1)
			dist[codes], near[codes/Group] = 7, 7
			k.scan(q, block, limit, dist[:codes:codes], near[:codes/Group:codes/Group])
			for c := range codes {
				want := 0
				for w := range q {
					want += bits.OnesCount64(q[w] ^ block[(c/Lanes*n+w)*Lanes+c%Lanes])
				}
				if int(dist[c]) != want {
					t.Fatalf("%s: code %d of %d words is %d away, want %d", k.name, c, n, dist[c], want)
				}
				if got := near[c/Group]>>(c%Group)&1 == 1; got != (want <= limit) {
					t.Fatalf("%s: a code at %d of %d words is near: %v, limit %d", k.name, want, n, got, limit)
				}
			}
			if dist[codes] != 7 || near[codes/Group] != 7 {
				t.Fatalf("%s wrote past the end", k.name)
			}
		}
	}
}

func TestSignsEqualsPureGo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 1))
	pick := func() float32 { // many equal ones, and both zeros
		return []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(r.NormFloat64())}[r.IntN(5)]
	}
	for n := 1; n <= 1100; n++ {
		v, mean := floats(r, n, pick), floats(r, n, pick)
		for _, k := range twins() {
			dst := words(r, (n+63)/64)
			k.signs(dst, v, mean)
			for i := range len(dst) * 64 {
				if got, want := dst[i/64]>>(i%64)&1 == 1, i < n && v[i] > mean[i]; got != want {
					t.Fatalf("%s: bit %d of %d is %v, want %v", k.name, i, n, got, want)
				}
			}
		}
	}
}

func TestWeighEqualsPureGo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 1))
	for n := 1; n <= 40; n++ {
		for range 20 {
			q := floats(r, n*64, func() float32 { return float32(r.NormFloat64()) })
			codes := words(r, (n-1)*Lanes+1)
			var want, size float64
			for i, x := range q {
				if codes[i/64*Lanes]>>(i%64)&1 == 1 {
					want += float64(x)
					size += math.Abs(float64(x))
				}
			}
			for name, got := range map[string]float32{"chosen": Weigh(q, codes), "go": weighGo(q, codes)} {
				if math.Abs(float64(got)-want) > 1e-5*size {
					t.Fatalf("%s: %d words weigh %v, want %v", name, n, got, want)
				}
			}
		}
	}
}

func TestDotBytesEqualsPureGo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 1))
	for i := range 300 {
		n, count := ByteLanes*(1+i%40), 1+r.IntN(9)
		most := (1<<24 - 1) / n // per value: then no sum overflows
		offQ, offR := r.IntN(16), r.IntN(40)
		q, rows := make([]int16, offQ+n+32)[offQ:], make([]int8, offR+n*count+64)[offR:]
		for j := range q {
			q[j] = int16(min(most, math.MaxInt16) * (2*r.IntN(2) - 1))
			if i%2 == 0 {
				q[j] = int16(r.IntN(2*min(most, math.MaxInt16)) - min(most, math.MaxInt16))
			}
		}
		for j := range rows {
			rows[j] = int8(127 * (2*r.IntN(2) - 1))
			switch {
			case i%3 == 0:
				rows[j] = int8(r.IntN(255) - 127)
			case i%3 == 1 && q[j%n] < 0: // the greatest possible sum
				rows[j] = -127
			case i%3 == 1:
				rows[j] = 127
			}
		}
		for _, k := range twins() {
			out := make([]int32, count+1)
			out[count] = 7
			k.bytes(q[:n:n], rows[:n*count:n*count], out[:count:count])
			for c := range count {
				want := int64(0)
				for j := range n {
					want += int64(q[j]) * int64(rows[c*n+j])
				}
				if int64(out[c]) != want {
					t.Fatalf("%s: row %d of %d bytes is %d, want %d", k.name, c, n, out[c], want)
				}
			}
			if out[count] != 7 {
				t.Fatalf("%s wrote past the end", k.name)
			}
		}
	}
}

func TestKernelsDoNotAllocate(t *testing.T) {
	q, rows, out := make([]float32, 512), make([]float32, 5120), make([]float32, 10)
	code, codes := make([]uint64, 8), make([]uint64, 8*64)
	dist, near := make([]uint16, 64), make([]uint64, 1)
	words, bytes, sums := make([]int16, 512), make([]int8, 1024), make([]int32, 2)
	if n := testing.AllocsPerRun(20, func() {
		DotRows(q, rows, 512, out)
		Signs(code, q, rows)
		Scan(code, codes, 200, dist, near)
		DotBytes(words, bytes, sums)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDot512(b *testing.B) {
	x, y := make([]float32, 512), make([]float32, 512)
	for _, k := range twins() {
		b.Run(k.name, func(b *testing.B) {
			for b.Loop() {
				k.dot(x, y)
			}
		})
	}
}

func BenchmarkScan512(b *testing.B) {
	const n = 8192
	q, codes := make([]uint64, 8), make([]uint64, 8*n)
	dist, near := make([]uint16, n), make([]uint64, n/64)
	for _, k := range twins() {
		b.Run(k.name, func(b *testing.B) {
			b.SetBytes(n * 64)
			for b.Loop() {
				k.scan(q, codes, 10, dist, near)
			}
		})
	}
}

func BenchmarkSigns512(b *testing.B) {
	v, mean, dst := make([]float32, 512), make([]float32, 512), make([]uint64, 8)
	for _, k := range twins() {
		b.Run(k.name, func(b *testing.B) {
			for b.Loop() {
				k.signs(dst, v, mean)
			}
		})
	}
}

func BenchmarkDotBytes512(b *testing.B) {
	const n = 64
	q, rows, out := make([]int16, 512), make([]int8, 512*n), make([]int32, n)
	for _, k := range twins() {
		b.Run(k.name, func(b *testing.B) {
			b.SetBytes(512 * n)
			for b.Loop() {
				k.bytes(q, rows, out)
			}
		})
	}
}
