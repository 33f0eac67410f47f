package duration

import (
	"io/fs"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Over a table of extremes and their neighbors, Of is the exact product or the nearest
// duration there is.
func TestOfSaturates(t *testing.T) {
	t.Parallel()
	numbers := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64, 9_200_000_000_000_000_000}
	for bit := range 63 {
		for _, near := range []int64{-1, 0, 1} {
			numbers = append(numbers, 1<<bit+near, -(1<<bit)+near)
		}
	}
	for _, unit := range []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		most := math.MaxInt64 / int64(unit)
		for _, n := range append(numbers, most-1, most, -most, -most+1) {
			checkOf(t, n, unit)
		}
		if most < math.MaxInt64 {
			checkOf(t, most+1, unit)
			checkOf(t, -most-1, unit)
		}
	}
}

func checkOf(t *testing.T, n int64, unit time.Duration) {
	t.Helper()
	exact := new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(unit)))
	want := time.Duration(math.MaxInt64)
	switch {
	case exact.IsInt64():
		want = time.Duration(exact.Int64())
	case exact.Sign() < 0:
		want = math.MinInt64
	}
	// What fits only just on the negative side may be rounded to the end of the range.
	if got := Of(n, unit); got != want && !(want < -math.MaxInt64+unit && got == math.MinInt64) {
		t.Errorf("Of(%d, %v) = %d, want %d", n, unit, got, want)
	}
}

// Numbers become durations in one place, so that none can wrap around.
func TestNobodyMultipliesDurations(t *testing.T) {
	t.Parallel()
	product := regexp.MustCompile(`time\.Duration\([^\n]*\)\s*\*\s*time\.(Milli|Micro)?(second|Second|Minute|Hour)`)
	for _, root := range []string{"..", filepath.Join("..", "..", "app")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, found := range product.FindAll(text, -1) {
				t.Errorf("%s: %s: use duration.Of", path, found)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
