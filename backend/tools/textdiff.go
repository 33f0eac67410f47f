package tools

import (
	"fmt"
	"strings"
)

// maxEdits limits the work of a diff. Texts that differ more are shown as replaced.
const maxEdits = 1500

// diffLine is one line of an edit script: ' ', '-' or '+'.
type diffLine struct {
	op   byte
	text string
}

// unifiedDiff compares two texts line by line, with three lines of context. It returns ""
// if they are equal.
func unifiedDiff(a, b, nameA, nameB string) string {
	if a == b {
		return ""
	}
	script := editScript(strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n"))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", nameA, nameB)
	const context = 3
	lineA, lineB := 1, 1
	for i := 0; i < len(script); {
		if script[i].op == ' ' {
			lineA++
			lineB++
			i++
			continue
		}
		start := max(0, i-context)
		end, gap := i, 0
		for end < len(script) && gap <= 2*context {
			if script[end].op == ' ' {
				gap++
			} else {
				gap = 0
			}
			end++
		}
		end -= max(0, gap-context)
		fromA, fromB := lineA-(i-start), lineB-(i-start)
		var body strings.Builder
		nA, nB := 0, 0
		for _, l := range script[start:end] {
			if l.op != '+' {
				nA++
			}
			if l.op != '-' {
				nB++
			}
			body.WriteByte(l.op)
			body.WriteString(strings.TrimSuffix(l.text, "\n"))
			body.WriteByte('\n')
			if !strings.HasSuffix(l.text, "\n") {
				body.WriteString("\\ No newline at end of file\n")
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n%s", span(fromA, nA), span(fromB, nB), body.String())
		for _, l := range script[i:end] {
			if l.op != '+' {
				lineA++
			}
			if l.op != '-' {
				lineB++
			}
		}
		i = end
	}
	return out.String()
}

func span(from, n int) string {
	if n == 0 {
		from--
	}
	return fmt.Sprintf("%d,%d", from, n)
}

// editScript returns a shortest edit script (E. Myers, An O(ND) Difference Algorithm, 1986).
func editScript(a, b []string) []diffLine {
	if n := len(a); n > 0 && a[n-1] == "" {
		a = a[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == "" {
		b = b[:n-1]
	}
	var head, tail []diffLine
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head, a, b = append(head, diffLine{' ', a[0]}), a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail, a, b = append(tail, diffLine{' ', a[len(a)-1]}), a[:len(a)-1], b[:len(b)-1]
	}
	head = append(head, middle(a, b)...)
	for i := len(tail) - 1; i >= 0; i-- {
		head = append(head, tail[i])
	}
	return head
}

func middle(a, b []string) []diffLine {
	n, m := len(a), len(b)
	limit := min(n+m, maxEdits)
	v := make([]int, 2*limit+3)
	mid := limit + 1
	var trace [][]int
	for d := 0; d <= limit; d++ {
		trace = append(trace, append([]int(nil), v[mid-d-1:mid+d+2]...))
		for k := -d; k <= d; k += 2 {
			x := v[mid+k-1] + 1
			if k == -d || k != d && v[mid+k-1] < v[mid+k+1] {
				x = v[mid+k+1]
			}
			y := x - k
			for x < n && y < m && a[x] == b[y] {
				x++
				y++
			}
			v[mid+k] = x
			if x >= n && y >= m {
				return walkBack(a, b, trace, d)
			}
		}
	}
	var out []diffLine
	for _, l := range a {
		out = append(out, diffLine{'-', l})
	}
	for _, l := range b {
		out = append(out, diffLine{'+', l})
	}
	return out
}

// walkBack derives the script from the traces; trace[d] holds diagonals -d-1 .. d+1.
func walkBack(a, b []string, trace [][]int, d int) []diffLine {
	x, y := len(a), len(b)
	var rev []diffLine
	for ; d > 0; d-- {
		v := func(k int) int { return trace[d][k+d+1] }
		k := x - y
		prev := k - 1
		if k == -d || k != d && v(k-1) < v(k+1) {
			prev = k + 1
		}
		px := v(prev)
		py := px - prev
		for x > px && y > py {
			x, y = x-1, y-1
			if x < px || y < py {
				break
			}
			rev = append(rev, diffLine{' ', a[x]})
		}
		if prev == k+1 {
			rev = append(rev, diffLine{'+', b[py]})
		} else {
			rev = append(rev, diffLine{'-', a[px]})
		}
		x, y = px, py
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		rev = append(rev, diffLine{' ', a[x]})
	}
	for i, j := 0, len(rev)-1; i < j; i, j = i+1, j-1 {
		rev[i], rev[j] = rev[j], rev[i]
	}
	return rev
}
