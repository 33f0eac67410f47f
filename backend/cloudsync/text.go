package cloudsync

import (
	"regexp"
	"slices"
	"strings"
)

// mergeTexts merges two texts derived from base, first by line and then by word. It returns false
// if both changed the same words, or if the texts are too long to compare.
func mergeTexts(base, x, y any) (string, bool) {
	b, ok := base.(string)
	t, okx := x.(string)
	u, oky := y.(string)
	if !ok || !okx || !oky {
		return "", false
	}
	out, ok := merge3(strings.SplitAfter(b, "\n"), strings.SplitAfter(t, "\n"), strings.SplitAfter(u, "\n"), func(b, x, y []string) ([]string, bool) {
		return merge3(words(b), words(x), words(y), nil)
	})
	return strings.Join(out, ""), ok
}

var wordOrGap = regexp.MustCompile(`\s+|[^\s]+`)

func words(lines []string) []string { return wordOrGap.FindAllString(strings.Join(lines, ""), -1) }

// maxCells limits the size of the table for the longest common subsequence.
const maxCells = 4 << 20

// merge3 is the diff3 algorithm. It aligns x and y with base and takes each stretch from the side
// that changed it. A stretch that both changed is passed to finer; if finer is nil, it is a
// conflict and merge3 returns false.
func merge3(base, x, y []string, finer func(b, x, y []string) ([]string, bool)) ([]string, bool) {
	if len(base)*len(x) > maxCells || len(base)*len(y) > maxCells {
		return nil, false
	}
	mx, my := align(base, x), align(base, y)
	var out []string
	b, i, j := 0, 0, 0
	for {
		// Find the next element of base that both kept.
		k := b
		for k < len(base) && (mx[k] < 0 || my[k] < 0) {
			k++
		}
		endX, endY := len(x), len(y)
		if k < len(base) {
			endX, endY = mx[k], my[k]
		}
		part, ok := stretch(base[b:k], x[i:endX], y[j:endY], finer)
		if !ok {
			return nil, false
		}
		out = append(out, part...)
		if k == len(base) {
			return out, true
		}
		out = append(out, base[k])
		b, i, j = k+1, endX+1, endY+1
	}
}

func stretch(b, x, y []string, finer func(b, x, y []string) ([]string, bool)) ([]string, bool) {
	switch {
	case slices.Equal(x, y), slices.Equal(b, y):
		return x, true
	case slices.Equal(b, x):
		return y, true
	case finer != nil:
		return finer(b, x, y)
	}
	return nil, false
}

// align maps each element of a to the index of its partner in the longest common subsequence of a
// and b, or to -1.
func align(a, b []string) []int {
	w := len(b) + 1
	length := make([]int32, (len(a)+1)*w)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i*w+j] = length[(i+1)*w+j+1] + 1
			} else {
				length[i*w+j] = max(length[(i+1)*w+j], length[i*w+j+1])
			}
		}
	}
	out := make([]int, len(a))
	i, j := 0, 0
	for i < len(a) {
		switch {
		case j < len(b) && a[i] == b[j]:
			out[i] = j
			i, j = i+1, j+1
		case j == len(b) || length[(i+1)*w+j] >= length[i*w+j+1]:
			out[i] = -1
			i++
		default:
			j++
		}
	}
	return out
}
