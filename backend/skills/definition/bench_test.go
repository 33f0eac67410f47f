package definition

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// long returns a skill of n steps that use each other's outputs.
func long(n int) json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"name":"n","steps":[{"stepId":"s0","toolName":"fetch","inputMapping":{"query":"$.input.q"}}`)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `,{"stepId":"s%d","toolName":"fetch","condition":"$.s%d.n > %d","inputMapping":{"query":{"$concat":["$.input.q","$.s0.x"]},"limit":{"$path":"$.s%d.n","default":0}}}`, i, i-1, i, i-1)
	}
	b.WriteString("]}")
	return json.RawMessage(b.String())
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{10, 50, 500} {
		text := long(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if r, err := Read(text, things); err != nil || !r.Valid() {
					b.Fatal(err, r.Errors)
				}
			}
		})
	}
}

func BenchmarkCompare(b *testing.B) {
	from := read(b, string(long(500)), things).Skill.Body
	to := read(b, string(long(499)), things).Skill.Body
	to.Steps[3], to.Steps[200] = to.Steps[200], to.Steps[3]
	for b.Loop() {
		if _, err := Compare(&from, &to); err != nil {
			b.Fatal(err)
		}
	}
}
